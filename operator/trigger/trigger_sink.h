// Decides on alerts by the ProfileTriggers, and starts the captures. What to do follows from the
// runs that exist, read from the API server, so nothing is forgotten by a restart. A run is created
// before the alert is answered, and its name follows from the run before. So if the operator ends
// in between, the alert is sent again and the existing run is found, and two operators create only
// one run.
//
// In a storm most alerts concern a job that was captured already. These are decided from memory.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fair/rate_shares.h"
#include "operator/trigger/alert.h"
#include "operator/trigger/ports.h"
#include "operator/trigger/recent_map.h"
#include "operator/trigger/trigger_notebook.h"
#include "operator/trigger/trigger_table.h"

namespace strobe::trigger {

class TriggerSink final : public AlertSink {
 public:
  // All must outlive the TriggerSink.
  struct Dependencies {
    const Clock& clock;
    Cluster& cluster;
    const Table& triggers;
    Notebook& notebook;
    Metrics& metrics;
    // Called when the status of the trigger with this key has something new to tell.
    std::function<void(const std::string&)> noted;
  };
  explicit TriggerSink(Dependencies dependencies);

  // The triggers are known from now on. Until then alerts are sent back.
  void Open();
  // No more captures are started. Returns when none is being started.
  void Close();
  absl::Status Take(std::span<const Alert> alerts, MonoTime until) override;
  // Like Take, for a sign from a worker; the trigger must ask for signs. Also returns Unavailable
  // while another trigger captures the job.
  absl::Status TakeSign(const ProfileTrigger& trigger, const Alert& sign, MonoTime until);
  // Whether the triggers are known.
  bool IsOpen();

 private:
  class Slot;
  using MaybeRefusal = absl::StatusOr<std::optional<kube::RunRefusal>>;

  // What an alert is about.
  struct Subject {
    const ProfileTrigger& trigger;
    const Alert& alert;
    std::string job{};  // Empty until it is known.
    std::optional<kube::JobRef> target{};
  };
  // What is known of a trigger and a job without asking again.
  struct Remembered {
    kube::RunRefusal refusal{};
    WallTime until{};  // The refusal holds for every alert until then.
    // `until` on the monotonic clock, so that a wall clock set back cannot extend it.
    MonoTime expires_mono{};
    WallTime captured{};  // Alerts that had begun by then are captured.
    std::string run{};
  };
  // Where an alert's pod belongs.
  struct CachedPod {
    std::optional<kube::JobRef> job{};  // None: there is no such pod.
    MonoTime until{};
  };

  // Tells the outcome to `decided`.
  absl::Status Decide(const ProfileTrigger& trigger, const Alert& alert, MonoTime until,
                      const std::function<void(std::string_view)>& decided);
  MaybeRefusal Judge(Subject& subject, MonoTime until);
  // Finds out which job the alert is about.
  MaybeRefusal FindJob(Subject& subject, MonoTime until);
  absl::StatusOr<std::optional<kube::JobRef>> JobOf(const std::string& ns, const std::string& pod,
                                                    MonoTime until);
  MaybeRefusal JudgeByServer(const Subject& subject, MonoTime until);
  MaybeRefusal Start(const ProfileTrigger& trigger, const Subject& subject, std::int64_t number,
                     MonoTime until);
  std::optional<kube::RunRefusal> Recall(const Subject& subject);
  void Remember(const Subject& subject, Remembered known);
  // Unavailable if too many captures were started lately: nothing needs to be read then.
  absl::Status MayStart(const std::string& ns);
  // Unavailable if the deadline has passed, or too many captures were started lately.
  absl::Status TakeStart(const std::string& ns, MonoTime until);
  // Only by the alert that has its turn, so that the last start is its own.
  void GiveStartBack();
  // Unavailable if the deadline has passed, or too much was read for the namespace lately.
  absl::Status MayRead(const std::string& ns, MonoTime until);

  const Dependencies deps_;
  Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;  // An alert has its turn.
  fair::ReadShares reads_ ABSL_GUARDED_BY(mutex_);
  fair::StartShares starts_ ABSL_GUARDED_BY(mutex_);
  RecentMap<Remembered> remembered_ ABSL_GUARDED_BY(mutex_);
  RecentMap<CachedPod> pods_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::trigger
