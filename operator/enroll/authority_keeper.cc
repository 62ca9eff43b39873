#include "operator/enroll/authority_keeper.h"

#include "common/base/guard.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/grpc_tls/credentials.h"

namespace strobe::enroll {
namespace {

// Derives a separate key, so that a seal tells nothing about the key that signs certificates.
std::string SealKeyOf(const std::string& key) {
  return HmacSha256(key, "strobe.dev: key to seal requesters with");
}

}  // namespace

AuthorityKeeper::AuthorityKeeper(const Clock& clock, AuthorityStore& store, Options options,
                                 std::function<bool()> leading, std::function<void()> became_ready)
    : clock_(clock),
      store_(store),
      options_(std::move(options)),
      leading_(std::move(leading)),
      became_ready_(std::move(became_ready)) {}

AuthorityKeeper::~AuthorityKeeper() {
  stop_.Notify();
  if (thread_.joinable()) thread_.join();
}

void AuthorityKeeper::Start() {
  thread_ = std::thread([this] { RunThread("authorities", [this] { Run(); }); });
}

void AuthorityKeeper::Run() {
  // Webhooks and enrollment cannot be served before there are certificates.
  constexpr Nanos kPollUntilReady = std::chrono::milliseconds(200);
  std::string complaint;  // What failed last, so that a failure is logged once.
  do {
    const absl::Status status = RunGuarded("authorities", [this] { return Look(); });
    // A conflict (Aborted) is settled by the next look.
    if (!status.ok() && MessageOf(status) != complaint && !absl::IsAborted(status))
      LogWarning("certificates cannot be kept up to date", {{"error", MessageOf(status)}});
    complaint = MessageOf(status);
    // Not slower after a failure: a webhook configuration that is missing is usually being
    // installed.
  } while (!stop_.WaitFor(ready() ? options_.poll : std::min(kPollUntilReady, options_.poll)));
}

absl::Status AuthorityKeeper::Look() {
  const WallTime now = clock_.WallNow();
  ASSIGN_OR_RETURN(Authorities authorities, UpToDate(now));
  const std::string roots = authorities.certificates();
  {
    MutexLock lock(&mutex_);
    authorities_ = std::move(authorities);
  }
  RETURN_IF_ERROR(RenewOwn(now));
  // The API server is told only after the authorities are stored, so that it never trusts one that
  // is lost. Until it is told it would refuse our webhooks, so this replica is not ready before.
  if (leading_()) {
    RETURN_IF_ERROR(store_.WriteRoots(roots));
  } else if (!ready()) {
    ASSIGN_OR_RETURN(const bool told, store_.AreRootsWritten(roots));
    if (!told)
      return absl::UnavailableError(
          "no leader has written the trusted authorities to the API server yet");
  }
  if (ready()) return absl::OkStatus();
  ready_.Notify();
  if (became_ready_) became_ready_();
  return absl::OkStatus();
}

absl::StatusOr<Authorities> AuthorityKeeper::UpToDate(WallTime now) {
  ASSIGN_OR_RETURN(const StoredAuthorities stored, store_.Load());
  Authorities authorities;
  if (!stored.certificates.empty()) {
    absl::StatusOr<Authorities> parsed = Authorities::Parse(stored.certificates, stored.keys);
    if (!parsed.ok()) {
      // Not repaired automatically: with new authorities every running sidecar would refuse us.
      return absl::DataLossError(StrCat(MessageOf(parsed.status()),
                                        "; restore the stored authorities, or remove them so that "
                                        "new ones are made (pods must then be recreated)"));
    }
    authorities = *std::move(parsed);
  }
  if (!leading_()) {
    if (authorities.empty())
      return absl::UnavailableError("the leader has not created an authority yet");
    return authorities;
  }
  ASSIGN_OR_RETURN(const bool changed,
                   authorities.Rotate(options_.rules, stored.server_time.value_or(now), now));
  if (changed) {
    RETURN_IF_ERROR(store_.Save({authorities.certificates(), authorities.keys(), stored.version}));
    LogInfo("authorities changed", {});
  }
  return authorities;
}

absl::Status AuthorityKeeper::RenewOwn(WallTime now) {
  KeyPair signer;
  std::string roots;
  {
    MutexLock lock(&mutex_);
    signer = authorities_.Signer(options_.rules, now);
    roots = authorities_.certificates();
  }
  const bool same_signer = signer.certificate == signer_.certificate;
  // Somebody may have set a clock back that was ahead.
  const bool fresh = own_.from <= now && now < RenewalTime(own_);
  if (same_signer && roots == own_roots_ && fresh) return absl::OkStatus();
  const Validity validity = ValidFor(options_.rules.certificate_lifetime, now);
  const Claim as_server{"strobe-operator", options_.server_names, Usage::kServer, validity};
  const Claim as_client{"strobe-operator", {kOperatorName}, Usage::kClient, validity};
  if (client_ == nullptr) {
    ASSIGN_OR_RETURN(const KeyPair server, NewCertificate(signer, as_server));
    ASSIGN_OR_RETURN(const KeyPair client, NewCertificate(signer, as_client));
    ASSIGN_OR_RETURN(server_, LiveIdentity::Create({server, roots}));
    ASSIGN_OR_RETURN(client_, LiveIdentity::Create({client, roots}));
  } else {
    const auto renew = [&](LiveIdentity& identity, const Claim& claim) -> absl::Status {
      ASSIGN_OR_RETURN(const std::string request, NewSigningRequest(identity.Get()->own.key));
      ASSIGN_OR_RETURN(std::string certificate, Certify(signer, request, claim));
      return identity.Renew(std::move(certificate), roots);
    };
    RETURN_IF_ERROR(renew(*server_, as_server));
    RETURN_IF_ERROR(renew(*client_, as_client));
  }
  signer_ = std::move(signer);
  own_roots_ = std::move(roots);
  own_ = validity;
  return absl::OkStatus();
}

std::vector<std::string> AuthorityKeeper::SealKeys() const {
  MutexLock lock(&mutex_);
  if (authorities_.empty()) return {};
  const std::string signer = authorities_.Signer(options_.rules, clock_.WallNow()).key;
  std::vector<std::string> keys = {SealKeyOf(signer)};
  for (const std::string& key : authorities_.KeyList()) {
    if (key != signer) keys.push_back(SealKeyOf(key));
  }
  return keys;
}

std::optional<Validity> AuthorityKeeper::NewestAuthority() const {
  MutexLock lock(&mutex_);
  return authorities_.empty() ? std::nullopt : std::optional(authorities_.newest());
}

absl::StatusOr<std::string> AuthorityKeeper::CertifyPod(const std::string& signing_request,
                                                        const PodIdentity& pod) const {
  const WallTime now = clock_.WallNow();
  KeyPair signer;
  {
    MutexLock lock(&mutex_);
    signer = authorities_.Signer(options_.rules, now);
  }
  // The common name is only for people, and too short (64 bytes) for the name of every pod.
  return Certify(signer, signing_request,
                 {"strobe-sidecar",
                  {PodName(pod.uid)},
                  Usage::kServer,
                  ValidFor(options_.rules.certificate_lifetime, now)});
}

}  // namespace strobe::enroll
