// The operator's own certificates, with the authority that issues them and those of the sidecars.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "common/grpc_tls/credentials.h"
#include "operator/config/config.h"
#include "operator/enroll/authority_keeper.h"
#include "operator/enroll/authority_secret.h"
#include "operator/main/milestones.h"
#include "operator/metrics/operator_metrics.h"

namespace strobe {

enroll::AuthorityRules RulesOf(const config::TlsConfig& tls);

class Certificates {
 public:
  // `ns` is the operator's namespace. The references outlive it.
  Certificates(const Clock& clock, const config::OperatorConfig& config, const std::string& ns,
               kube::Client& client, metrics::OperatorMetrics& metrics, Milestones& milestones);

  // Begins to look after them, on a thread of its own; reaches Milestone::kCertified.
  void Start() { keeper_.Start(); }
  const enroll::AuthorityKeeper& keeper() const { return keeper_; }
  // For calling sidecars; null before Milestone::kCertified.
  std::shared_ptr<grpc::ChannelCredentials> WorkerCredentials();

 private:
  void OnReady();

  const Clock& clock_;
  metrics::OperatorMetrics& metrics_;
  Milestones& milestones_;
  enroll::AuthoritySecret store_;
  std::optional<LiveChannelCredentials> worker_credentials_;  // Set once, before kCertified.
  enroll::AuthorityKeeper keeper_;                            // Last: its thread uses the rest.
};

}  // namespace strobe
