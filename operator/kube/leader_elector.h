// Leader election with a coordination.k8s.io Lease, by client-go's rules: expiry is measured on
// this process's clock since the record last changed, never by the times in the record. A leader
// that cannot renew in time must end its process: `lost` is called on a separate thread and must
// not return.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "operator/kube/client.h"

namespace strobe::kube {

struct LeaseOptions {
  std::string ns{}, name = "strobe-operator", identity{};
  Nanos duration = std::chrono::seconds(15);
  Nanos renew_deadline = std::chrono::seconds(10);
  Nanos retry_period = std::chrono::seconds(2);
};

// InvalidArgument unless duration > renew_deadline > 1.2 x retry_period > 0 and the identity is
// set.
absl::Status CheckLeaseOptions(const LeaseOptions& options);

class LeaderElector {
 public:
  LeaderElector(const Clock& clock, Client& client, LeaseOptions options,
                std::function<void()> lead, std::function<void()> lost);
  ~LeaderElector();
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  void Start();
  bool leading() const { return leading_; }
  // Releases the lease, so that a successor need not wait. Call it only after all guarded work has
  // stopped.
  void Release();

 private:
  void Run();
  void WatchRenewals();
  bool TryOnce();
  // The time for one call: half of the deadline, as in client-go, so that another call, by another
  // connection, can follow one that hangs.
  Nanos CallLimit() const;
  Json Record(const Json& metadata, int transitions, bool acquired) const;

  const Clock& clock_;
  Client& client_;
  const LeaseOptions options_;
  const std::string path_;
  const std::function<void()> lead_, lost_;

  // The following members are used only by the elector's thread.
  Json lease_;               // The lease as last read or written.
  std::string seen_record_;  // The spec of the last lease, to detect changes.
  MonoTime changed_at_{};    // When the spec last changed, on this process's clock.

  std::atomic<bool> leading_{false};
  std::atomic<Nanos::rep> renewed_at_{0};  // Monotonic; the start of the last successful renewal.
  Stop stop_, leads_or_stops_;
  std::thread thread_, watchdog_;
};

}  // namespace strobe::kube
