#include "operator/main/certificates.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "common/base/strings.h"

namespace strobe {
namespace {

enroll::AuthorityKeeper::Options KeeperOptions(const config::OperatorConfig& config,
                                               const std::string& ns) {
  enroll::AuthorityKeeper::Options options;
  options.rules = RulesOf(config.tls);
  options.server_names = {StrCat(config.tls.service, ".", ns, ".svc")};
  for (const std::string& name : config.tls.extra_names) options.server_names.push_back(name);
  // Certificates with a short lifetime need to be looked at more often than the default.
  options.poll = std::min<Nanos>(options.poll, config.tls.certificate_lifetime / 10);
  return options;
}

enroll::AuthoritySecret::Options StoreOptions(const config::OperatorConfig& config,
                                              const std::string& ns) {
  // With somebody else's certificate the webhook configurations are not ours to change.
  const bool announces = config.webhook.certificate.empty() && !config.webhook.listen.empty();
  return {config.tls.ns.empty() ? ns : config.tls.ns, config.tls.secret,
          announces ? config.webhook.configuration : ""};
}

}  // namespace

enroll::AuthorityRules RulesOf(const config::TlsConfig& tls) {
  return {tls.authority_lifetime, tls.settle, tls.certificate_lifetime};
}

Certificates::Certificates(const Clock& clock, const config::OperatorConfig& config,
                           const std::string& ns, kube::Client& client,
                           metrics::OperatorMetrics& metrics, Milestones& milestones)
    : clock_(clock),
      metrics_(metrics),
      milestones_(milestones),
      store_(client, StoreOptions(config, ns)),
      keeper_(
          clock, store_, KeeperOptions(config, ns),
          [this] { return milestones_.reached(Milestone::kElected); }, [this] { OnReady(); }) {}

void Certificates::OnReady() {
  worker_credentials_.emplace(clock_, keeper_.client(), [this](PeerVerdict verdict) {
    metrics_.PeerRefused("worker", std::string(Name(verdict)));
  });
  milestones_.Reach(Milestone::kCertified);
}

std::shared_ptr<grpc::ChannelCredentials> Certificates::WorkerCredentials() {
  if (!milestones_.reached(Milestone::kCertified)) return nullptr;
  return worker_credentials_->Current();
}

}  // namespace strobe
