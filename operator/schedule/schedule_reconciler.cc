#include "operator/schedule/schedule_reconciler.h"

#include <optional>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/namespace_bounds.h"
#include "operator/schedule/schedule_decision.h"

namespace strobe::schedule {
namespace {

// A namespace has one decision a second, and each of its schedules that is due looks again after
// this time. Looking reads only memory.
constexpr Nanos kDecideLater = std::chrono::seconds(5);

}  // namespace

absl::StatusOr<kube::ReconcileResult> Reconciler::Reconcile(const std::string& key) {
  const absl::StatusOr<ProfileSchedule> found = cluster_.GetSchedule(key);
  if (absl::IsNotFound(found.status())) return kube::ReconcileResult{};
  RETURN_IF_ERROR(found.status());
  const ProfileSchedule& schedule = *found;
  // Its runs are deleted with it, by their owner reference.
  if (schedule.deleting) return kube::ReconcileResult{};
  ASSIGN_OR_RETURN(const std::vector<kube::CreatedRun> runs, cluster_.RunsOf(schedule));
  Decision decision =
      DecideSchedule(schedule, runs, cluster_.BoundsOf(schedule.ns), clock_.WallNow());
  // What is due stays due, and the newest of several times counts.
  if ((decision.due || decision.status.skipped > schedule.status.skipped) &&
      !MayDecide(schedule.ns))
    return kube::ReconcileResult{kDecideLater};
  if (decision.due) {
    ASSIGN_OR_RETURN(const std::optional<kube::RunRefusal> refusal,
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
    cluster_.RecordEvent(schedule, /*warning=*/true, "RunGone", "Count",
                         StrCat(run, " was deleted before it had ended"));
  }
  if (decision.clock_went_back) {
    cluster_.RecordEvent(schedule, /*warning=*/true, "ClockWentBack", "Schedule",
                         "the operator's clock was ahead; times that it had passed come again");
  }
  for (const kube::CreatedRun& run : decision.cancel)
    RETURN_IF_ERROR(cluster_.CancelRun(schedule, run));
  for (const kube::CreatedRun& run : decision.remove)
    RETURN_IF_ERROR(cluster_.DeleteRun(schedule, run));
  return kube::ReconcileResult{request::Sooner(decision.look_again, cluster_.KeepSealed(schedule))};
}

bool Reconciler::MayDecide(const std::string& ns) {
  const MonoTime now = clock_.MonoNow();
  MutexLock lock(&mutex_);
  // A full bucket is like none.
  for (auto& [name, bucket] : decisions_) bucket.Refill(now);
  std::erase_if(decisions_,
                [](const auto& entry) { return entry.second.tokens() >= kube::kDecisionBurst; });
  return decisions_.try_emplace(ns, kube::kDecisionsPerSecond, kube::kDecisionBurst, now)
      .first->second.Take();
}

// Called after the status was written, so that each change is reported only once.
void Reconciler::Tell(const ProfileSchedule& schedule, const ScheduleStatus& status) {
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
    cluster_.RecordEvent(schedule, /*warning=*/false, "RunStarted", "Start",
                         StrCat("started ", status.last_run));
  }
  if (status.skipped > before.skipped && status.last_skip) {
    cluster_.RecordEvent(
        schedule, /*warning=*/true, "RunSkipped", "Skip",
        StrCat("the run of ", FormatRfc3339(status.last_skip->time),
               " was skipped: ", status.last_skip->reason, ": ", status.last_skip->message));
  }
}

}  // namespace strobe::schedule
