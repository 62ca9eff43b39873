// Leader election by a coordination.k8s.io Lease, with client-go's rules: expiry is judged by our
// own clock since the record last changed, never by the times in it. A leader that cannot renew in
// time must end its process: `lost` is called on a thread of its own and must not return.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "operator/kube/client.h"

namespace strobe::kube {

struct LeaseOptions {
  std::string space{}, name = "strobe-operator", identity{};
  Nanos duration = std::chrono::seconds(15);
  Nanos renew_deadline = std::chrono::seconds(10);
  Nanos retry_period = std::chrono::seconds(2);
};

// duration > renew_deadline > 1.2 x retry_period > 0 and an identity.
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
  // Gives the lease up, so that a successor need not wait; only after all guarded work has stopped.
  void Release();

 private:
  void Run();
  void WatchRenewals();
  bool TryOnce();
  Json Record(const Json& metadata, int transitions, bool acquired) const;

  const Clock& clock_;
  Client& client_;
  const LeaseOptions options_;
  const std::string path_;
  const std::function<void()> lead_, lost_;

  // Of the elector's thread.
  Json lease_;               // As last seen or written.
  std::string seen_record_;  // Its spec, to notice changes.
  MonoTime changed_at_{};    // When that last changed, on our clock.

  std::atomic<bool> leading_{false};
  std::atomic<Nanos::rep> renewed_at_{0};  // Monotonic; start of the last renewal that worked.
  Stop stop_, leads_or_stops_;
  std::thread thread_, watchdog_;
};

}  // namespace strobe::kube
