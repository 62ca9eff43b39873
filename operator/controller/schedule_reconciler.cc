#include "operator/controller/schedule_reconciler.h"

#include <optional>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/core/schedule_decision.h"

namespace strobe {

absl::StatusOr<ReconcileResult> ScheduleReconciler::Reconcile(const std::string& key) {
  const absl::StatusOr<ProfileSchedule> found = cluster_.GetSchedule(key);
  if (absl::IsNotFound(found.status())) return ReconcileResult{};
  RETURN_IF_ERROR(found.status());
  const ProfileSchedule& schedule = *found;
  // Its runs are deleted with it, by their owner reference.
  if (schedule.deleting) return ReconcileResult{};
  ASSIGN_OR_RETURN(const std::vector<CreatedRun> runs, cluster_.RunsOf(schedule));
  ScheduleDecision decision =
      DecideSchedule(schedule, runs, cluster_.BoundsOf(schedule.ns), clock_.WallNow());
  if (decision.due) {
    ASSIGN_OR_RETURN(const std::optional<RunRefusal> refusal,
                     cluster_.StartRun(schedule, *decision.due));
    if (refusal) {
      decision.status = Skipped(std::move(decision.status), decision.due->time, refusal->reason,
                                refusal->message);
      decision.cancel.clear();
    } else {
      decision.status = Started(std::move(decision.status), *decision.due);
    }
  }
  if (decision.status != schedule.status) {
    RETURN_IF_ERROR(cluster_.WriteStatus(schedule, decision.status));
    Tell(schedule, decision.status);
  }
  for (const std::string& run : decision.gone) {
    cluster_.RecordEvent(schedule, true, "RunGone", "Count",
                         StrCat(run, " was deleted before it had ended"));
  }
  if (decision.clock_went_back) {
    cluster_.RecordEvent(schedule, true, "ClockWentBack", "Schedule",
                         "the operator's clock was ahead; times that it had passed come again");
  }
  for (const CreatedRun& run : decision.cancel) RETURN_IF_ERROR(cluster_.CancelRun(schedule, run));
  for (const CreatedRun& run : decision.remove) RETURN_IF_ERROR(cluster_.DeleteRun(schedule, run));
  return ReconcileResult{Sooner(decision.look_again, cluster_.KeepSealed(schedule))};
}

// Called after the status was written, so that each change is reported only once.
void ScheduleReconciler::Tell(const ProfileSchedule& schedule, const ScheduleStatus& status) {
  const ScheduleStatus& before = schedule.status;
  const auto count = [&](std::string_view result, std::int64_t now, std::int64_t former) {
    if (now > former) metrics_.RunsCounted(schedule.ns, result, now - former);
  };
  count("started", status.started, before.started);
  count("succeeded", status.succeeded, before.succeeded);
  count("failed", status.failed, before.failed);
  count("cancelled", status.cancelled, before.cancelled);
  count("skipped", status.skipped, before.skipped);
  if (status.started > before.started) {
    cluster_.RecordEvent(schedule, false, "RunStarted", "Start",
                         StrCat("started ", status.last_run));
  }
  if (status.skipped > before.skipped && status.last_skip) {
    cluster_.RecordEvent(
        schedule, true, "RunSkipped", "Skip",
        StrCat("the run of ", FormatRfc3339(status.last_skip->time),
               " was skipped: ", status.last_skip->reason, ": ", status.last_skip->message));
  }
}

}  // namespace strobe
