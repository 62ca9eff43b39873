// Reads what ResourceQuotas, LimitRanges and ProfilePolicies demand of the pods of namespaces, and
// which pods wait for a sidecar in vain. Remembers it for some seconds. Safe for concurrent use.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/token_bucket.h"
#include "operator/core/namespace_limits.h"
#include "operator/kube/client.h"

namespace strobe::kube {

class KubeNamespaceLimits final : public NamespaceLimitsReader {
 public:
  // Clock and client outlive it.
  KubeNamespaceLimits(const Clock& clock, Client& client)
      : clock_(clock), client_(client), reads_(kReadsPerSecond, kBurst, clock.MonoNow()) {}

  // Also fails when too many threads are reading already. A failure is remembered too, so that a
  // slow API server delays few pods.
  absl::StatusOr<std::shared_ptr<const NamespaceLimits>> Read(const std::string& ns,
                                                              Nanos within) override;

 private:
  // A stranger who reaches the webhooks' port can invent namespaces.
  static constexpr double kReadsPerSecond = 20, kBurst = 100;

  struct Known {
    absl::Status failure{};
    std::shared_ptr<const NamespaceLimits> limits{};
    MonoTime read{};
  };
  absl::StatusOr<std::shared_ptr<const NamespaceLimits>> ReadNow(const std::string& ns,
                                                                 MonoTime deadline);
  // Fills in what policies give to sidecars. Reads the namespace's labels only if one gives
  // something.
  absl::Status ReadPolicies(const std::string& ns, MonoTime deadline, NamespaceLimits& limits);
  void Remember(const std::string& ns, Known known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  Client& client_;
  Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);
  int reading_ ABSL_GUARDED_BY(mutex_) = 0;
  TokenBucket reads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::kube
