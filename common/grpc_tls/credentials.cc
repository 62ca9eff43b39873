#include "common/grpc_tls/credentials.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <utility>

#include "common/base/strings.h"

namespace strobe {
namespace {

using grpc::experimental::ExternalCertificateVerifier;
using grpc::experimental::TlsCustomVerificationCheckRequest;

// How often gRPC reads the certificate's file again: the longest delay until a renewal is used.
constexpr unsigned kRereadSeconds = 1;

std::string ToString(grpc::string_ref text) { return {text.data(), text.size()}; }

// Returns the rule that a peer has to meet; for servers it depends on the channel's target name.
using RuleFor = std::function<PeerRule(const std::string& target_name)>;

class Verifier final : public ExternalCertificateVerifier {
 public:
  Verifier(const Clock& clock, RuleFor rule_for, PeerObserver refused)
      : clock_(clock), rule_for_(std::move(rule_for)), refused_(std::move(refused)) {}

  bool Verify(TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    const PeerVerdict verdict =
        JudgePeer(ToString(request->peer_cert()), rule_for_(ToString(request->target_name())),
                  clock_.WallNow());
    *status = grpc::Status::OK;
    if (verdict != PeerVerdict::kOk) {
      if (refused_) refused_(verdict);
      // The peer is told what is wrong with its certificate, but not which name would be accepted.
      *status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                             StrCat("the peer's certificate: ", Name(verdict)));
    }
    return true;  // The verdict is in `status` already; there is nothing to wait for.
  }
  void Cancel(TlsCustomVerificationCheckRequest*) override {}

 private:
  const Clock& clock_;
  const RuleFor rule_for_;
  const PeerObserver refused_;
};

std::shared_ptr<grpc::experimental::CertificateProviderInterface> FilesOf(
    const LiveIdentity& identity) {
  return std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      identity.key_path(), identity.certificate_path(), kRereadSeconds);
}

}  // namespace

std::string PodName(std::string_view pod_uid) { return StrCat(pod_uid, ".pod.strobe.dev"); }

std::shared_ptr<grpc::ServerCredentials> MutualServerCredentials(const Clock& clock,
                                                                 const LiveIdentity& identity,
                                                                 std::string client,
                                                                 PeerObserver refused) {
  grpc::experimental::TlsServerCredentialsOptions options(FilesOf(identity));
  options.watch_identity_key_cert_pairs();
  // The verifier alone judges the client's certificate, and refuses a client without one.
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(ExternalCertificateVerifier::Create<Verifier>(
      clock,
      [&identity, client = std::move(client)](const std::string&) {
        return PeerRule{identity.Get()->roots, client, Usage::kClient};
      },
      std::move(refused)));
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> AskingServerCredentials(const LiveIdentity& identity) {
  grpc::experimental::TlsServerCredentialsOptions options(FilesOf(identity));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> VerifyingChannelCredentials(const Clock& clock,
                                                                      const Identity& identity,
                                                                      PeerObserver refused) {
  std::vector<grpc::experimental::IdentityKeyCertPair> pairs;
  if (!identity.own.key.empty()) pairs.push_back({identity.own.key, identity.own.certificate});
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(identity.roots, pairs));
  options.watch_root_certs();
  if (!pairs.empty()) options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(false);  // The verifier does it.
  options.set_check_call_host(false);
  options.set_certificate_verifier(ExternalCertificateVerifier::Create<Verifier>(
      clock,
      [roots = identity.roots](const std::string& target) {
        const std::size_t port = target.rfind(':');
        return PeerRule{roots, target.substr(0, port), Usage::kServer};
      },
      std::move(refused)));
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> LiveChannelCredentials::Current() {
  MutexLock lock(&mutex_);
  std::shared_ptr<const Identity> identity = identity_.Get();
  if (identity != made_of_) {
    current_ = VerifyingChannelCredentials(clock_, *identity, refused_);
    made_of_ = std::move(identity);
  }
  return current_;
}

}  // namespace strobe
