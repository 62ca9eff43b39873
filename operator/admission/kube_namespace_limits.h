// Reads what ResourceQuotas, LimitRanges and ProfilePolicies demand of the pods of namespaces, and
// which pods wait for a sidecar in vain. Remembers it for some seconds. Safe for concurrent use.
//
// A stranger who reaches the webhooks' port can send pods of namespaces that do not exist, which
// the API server does not tell from empty ones. What a stranger can take from others is bounded.
// Callers share what is read, by rate and at once. Namespaces that have a LimitRange, a
// ResourceQuota or something from a policy exist for certain, and only they need what is read here:
// a further rate is kept for those that were seen with one, and they are the last to be forgotten.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fair/rate_shares.h"
#include "common/fair/slot_shares.h"
#include "common/fair/token_bucket.h"
#include "operator/admission/namespace_limits.h"
#include "operator/kube/client.h"

namespace strobe::admission {

class KubeNamespaceLimits {
 public:
  // Clock and client outlive it.
  KubeNamespaceLimits(const Clock& clock, kube::Client& client)
      : clock_(clock),
        client_(client),
        reads_(kReadsPerSecond, kBurst, clock.MonoNow()),
        kept_(kKeptPerSecond, kKeptBurst, clock.MonoNow()) {}

  // Blocks for `within` at most. An error means that the limits could not be found out, also
  // because too many threads wait already. `caller` says who asks, such as the network of an
  // address: callers share what may be read. A failure is remembered too, so that a slow API server
  // delays few pods. Reads of one namespace at the same time are one read.
  absl::StatusOr<std::shared_ptr<const NamespaceLimits>> Read(const std::string& ns, Nanos within,
                                                              const std::string& caller);

 private:
  using Limits = absl::StatusOr<std::shared_ptr<const NamespaceLimits>>;
  // Namespaces a second, for all callers together; and those that are kept for namespaces with
  // limits.
  static constexpr double kReadsPerSecond = 20, kBurst = 100;
  static constexpr double kKeptPerSecond = 10, kKeptBurst = 50;
  // How many threads may read, or wait for the read of another one. With the webhooks that judge
  // they are fewer than there are threads, so that a slow API server does not stop injection.
  static constexpr int kMaxWaiting = 6;

  struct CachedLimits {
    absl::Status failure{};
    std::shared_ptr<const NamespaceLimits> limits{};
    MonoTime read{};
    bool exists = false;  // It was seen with something that only a real namespace has.
  };
  // What needs no read, or what is better than nothing while none is possible.
  std::optional<Limits> Remembered(const std::string& ns, MonoTime now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Limits Old(const std::string& ns, MonoTime now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeRead(const std::string& ns, const std::string& caller, MonoTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Limits ReadNow(const std::string& ns, MonoTime deadline);
  // Fills in what policies give to sidecars. Reads the namespace's labels only if one gives
  // something.
  absl::Status ReadPolicies(const std::string& ns, MonoTime deadline, NamespaceLimits& limits);
  void Remember(const std::string& ns, CachedLimits known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  kube::Client& client_;
  Mutex mutex_;
  std::map<std::string, CachedLimits> cached_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> reading_ ABSL_GUARDED_BY(mutex_);
  fair::SlotShares waiting_ ABSL_GUARDED_BY(mutex_){kMaxWaiting};  // Threads, which callers share.
  fair::ReadShares reads_ ABSL_GUARDED_BY(mutex_);
  fair::TokenBucket kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::admission
