// Takes what workers tell of themselves. Says which signs the ProfileTriggers ask them for,
// compares their step times, and hands signs to the TriggerSink, which applies the same budgets as
// for alerts.
//
// A worker speaks for its own pod only. What it tells can start captures of its own job, within the
// budgets of the triggers that ask it, and nothing else. Each replica knows only the step times
// that it was told. Workers call any replica, so each knows most of them.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fair/rate_shares.h"
#include "operator/trigger/ports.h"
#include "operator/trigger/rank_pace.h"
#include "operator/trigger/recent_map.h"
#include "operator/trigger/sign_rules.h"
#include "operator/trigger/trigger_sink.h"
#include "operator/trigger/trigger_table.h"

namespace strobe::trigger {

// How often workers call. A new trigger is known to them after that time.
inline constexpr Nanos kTellWithoutTriggers = std::chrono::minutes(2),
                       kTellWithTriggers = std::chrono::minutes(1),
                       kTellStepTimes = std::chrono::seconds(10);

class TriggerSignSink final : public SignSink {
 public:
  // All must outlive the TriggerSignSink.
  TriggerSignSink(const Clock& clock, Cluster& cluster, const Table& triggers, TriggerSink& sink,
                  Metrics& metrics);

  absl::StatusOr<SignOrders> Take(const WorkerSigns& told, MonoTime until) override;

 private:
  using Worker = std::shared_ptr<const SignWorker>;

  // Reads the pod of the worker, if it is not known.
  absl::StatusOr<Worker> Find(const WorkerSigns& told, MonoTime until);
  absl::Status TakeSigns(const ProfileTrigger& trigger, const SignWorker& worker,
                         const WorkerSigns& told, MonoTime until);
  absl::Status TakeStepTimes(const ProfileTrigger& trigger, const SignWorker& worker,
                             const WorkerSigns& told, MonoTime until);
  absl::Status Decide(const ProfileTrigger& trigger, const SignRule& rule, const ReportedSign& sign,
                      const SignWorker& worker, MonoTime until);

  const Clock& clock_;
  Cluster& cluster_;
  const Table& triggers_;
  TriggerSink& sink_;
  Metrics& metrics_;
  Mutex mutex_;
  fair::ReadShares reads_ ABSL_GUARDED_BY(mutex_);
  RecentMap<Worker> workers_ ABSL_GUARDED_BY(mutex_);  // By namespace, name and UID of the pod.
  RecentMap<MonoTime> liars_ ABSL_GUARDED_BY(mutex_);  // When a UID spoke for another pod.
  RankPace paces_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::trigger
