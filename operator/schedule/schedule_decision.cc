#include "operator/schedule/schedule_decision.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/duration.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::schedule {
namespace {

constexpr std::size_t kMaxSkipBytes = 512;
// Timers follow the monotonic clock. Somebody may set the wall clock, so it is looked at this
// often.
constexpr Nanos kMaxSleep = std::chrono::seconds(30);
// A clock that was ahead by more than this was wrong, and what it decided does not hold. Smaller
// steps back are waited out, so that no run is started twice.
constexpr Nanos kMaxStepBack = std::chrono::hours(1);

void SetScheduleCondition(const ProfileSchedule& schedule, std::string type, bool holds,
                          std::string reason, std::string message, WallTime now,
                          ScheduleStatus& status) {
  kube::PutCondition(schedule.status.conditions, now,
                     kube::Condition{.type = std::move(type),
                                     .status = holds ? kube::ConditionStatus::kTrue
                                                     : kube::ConditionStatus::kFalse,
                                     .reason = std::move(reason),
                                     .message = CutUtf8(message, kMaxSkipBytes),
                                     .observed_generation = schedule.generation},
                     status.conditions);
}

bool WasSuspended(const ScheduleStatus& status) {
  const kube::Condition* suspended = kube::FindCondition(status.conditions, condition::kSuspended);
  return suspended != nullptr && suspended->status == kube::ConditionStatus::kTrue;
}

const kube::CreatedRun* FindRun(const std::vector<kube::CreatedRun>& runs,
                                const std::string& name) {
  const auto found = std::find_if(runs.begin(), runs.end(),
                                  [&](const kube::CreatedRun& run) { return run.name == name; });
  return found == runs.end() ? nullptr : &*found;
}

void CountRun(const kube::CreatedRun& run, ScheduleStatus& status) {
  switch (run.state) {
    case kube::RunState::kUnfinished:
      return;
    case kube::RunState::kSucceeded:
      ++status.succeeded;
      status.last_success = std::max(status.last_success, run.completion);
      return;
    case kube::RunState::kFailed:
      ++status.failed;
      return;
    case kube::RunState::kCancelled:
      ++status.cancelled;
      return;
  }
}

// Moves runs that have ended from `active` to the counts. One write of the status does both, so
// that each is counted once.
void CountEnded(const std::vector<kube::CreatedRun>& runs, Decision& decision) {
  ScheduleStatus& status = decision.status;
  std::vector<ActiveRun> active;
  for (const ActiveRun& each : std::exchange(status.active, {})) {
    const kube::CreatedRun* run = FindRun(runs, each.name);
    if (run == nullptr) {
      ++status.cancelled;
      decision.gone.push_back(each.name);
    } else if (run->state == kube::RunState::kUnfinished) {
      active.push_back(each);
    } else {
      CountRun(*run, status);
    }
  }
  status.active = std::move(active);
}

// By the time that the API server wrote; names of one second ascend with the time that is due.
std::vector<kube::CreatedRun> NewestFirst(std::vector<kube::CreatedRun> runs) {
  std::sort(runs.begin(), runs.end(), [](const kube::CreatedRun& a, const kube::CreatedRun& b) {
    return std::pair(a.created, a.name) > std::pair(b.created, b.name);
  });
  return runs;
}

// The time from which on runs are still to be decided.
WallTime DecidedUntil(const ProfileSchedule& schedule, const std::string& timing, WallTime now,
                      Decision& decision) {
  const ScheduleStatus& before = schedule.status;
  const std::optional<WallTime> decided = decision.status.decided_until;
  // What would have been due by another timing, or during a suspension, is not made up for.
  if (WasSuspended(before) || (before.decided_until && before.timing != timing))
    return std::max(decided.value_or(now), kube::WholeSeconds(now));
  if (!decided) return std::min(schedule.created, kube::WholeSeconds(now));
  decision.clock_went_back = *decided > now + kMaxStepBack;
  return decision.clock_went_back ? kube::WholeSeconds(now) : *decided;
}

// Counts `count` missed runs as skipped. `last` is the time of the newest of them.
ScheduleStatus Missed(ScheduleStatus status, WallTime last, std::int64_t count) {
  if (count <= 0) return status;
  const bool all = count < ScheduleTimes::kMaxCounted - 1;
  status = Skipped(std::move(status), last, "Missed",
                   StrCat(count, all ? "" : " or more",
                          " runs were due while no operator could start them; only the newest one "
                          "is started late"));
  status.skipped += count - 1;  // Skipped() has counted one.
  return status;
}

// Counts existing runs that the status does not know as started: an operator that ended before it
// could write the status may have created them. `times` is null if it is not known when runs had
// been due.
void AdoptRuns(const ProfileSchedule& schedule, const ScheduleTimes* times,
               const std::vector<kube::CreatedRun>& runs, WallTime now, ScheduleStatus& status) {
  std::map<WallTime, std::string> found;
  for (const kube::CreatedRun& run : runs) {
    const std::optional<WallTime> time = TimeOfRun(run.name);
    if (time && *time > status.decided_until.value_or(schedule.created) && *time <= now)
      found.emplace(*time, run.name);
  }
  for (const auto& [time, name] : found) {
    if (times != nullptr) {
      const ScheduleTimes::Passed passed =
          times->Between(status.decided_until.value_or(schedule.created), time);
      status = Missed(std::move(status), passed.before_last.value_or(time), passed.count - 1);
    }
    status = Started(std::move(status), DueRun{.time = time, .name = name});
    status.decided_until = time;
  }
}

std::optional<kube::RunRefusal> WhyNotStarted(const ProfileSchedule& schedule,
                                              const ScheduleStatus& status, WallTime due,
                                              WallTime now) {
  if (schedule.starting_deadline && now - due > *schedule.starting_deadline) {
    return kube::RunRefusal{
        "MissedDeadline",
        StrCat("it could be started only ", FormatDuration(now - due),
               " late; startingDeadline is ", FormatDuration(*schedule.starting_deadline))};
  }
  if (schedule.concurrency == ConcurrencyPolicy::kForbid && !status.active.empty()) {
    return kube::RunRefusal{
        "StillActive",
        StrCat(status.active.front().name, " is still under way, and concurrencyPolicy is Forbid")};
  }
  if (status.active.size() >= kMaxActiveRuns) {
    return kube::RunRefusal{
        "TooManyActive", StrCat(status.active.size(), " runs are under way, which is the maximum")};
  }
  return std::nullopt;
}

// Decides on the newest time that has passed; older ones were missed.
void DecideDue(const ProfileSchedule& schedule, const ScheduleTimes::Passed& passed, WallTime now,
               Decision& decision) {
  ScheduleStatus& status = decision.status;
  const WallTime due = *passed.last;
  status = Missed(std::move(status), passed.before_last.value_or(due), passed.count - 1);
  status.decided_until = due;
  if (std::optional<kube::RunRefusal> refusal = WhyNotStarted(schedule, status, due, now)) {
    status =
        Skipped(std::move(status), due, std::move(refusal->reason), std::move(refusal->message));
    return;
  }
  decision.due = DueRun{due, RunNameOf(schedule.name, due), status.started};
}

// Decided from the runs that exist, so that a run whose cancellation failed is cancelled later.
void DecideReplaced(const std::vector<kube::CreatedRun>& runs, Decision& decision) {
  WallTime newest = decision.due ? decision.due->time : WallTime{};
  for (const ActiveRun& active : decision.status.active) newest = std::max(newest, active.time);
  for (const ActiveRun& active : decision.status.active) {
    const kube::CreatedRun* run = FindRun(runs, active.name);
    if (active.time < newest && run != nullptr && !run->cancelling && !run->deleting)
      decision.cancel.push_back(*run);
  }
}

}  // namespace

Decision DecideSchedule(const ProfileSchedule& schedule, const std::vector<kube::CreatedRun>& runs,
                        const std::optional<policy::SeriesBounds>& bounds, WallTime now) {
  Decision decision;
  ScheduleStatus& status = decision.status = schedule.status;
  status.observed_generation = schedule.generation;
  absl::StatusOr<ScheduleTimes> times =
      schedule.invalid.empty()
          ? ScheduleTimes::Make(schedule.timing, schedule.created, schedule.uid)
          : absl::InvalidArgumentError(ToAbsl(schedule.invalid));
  const std::string why = times.ok() ? schedule.not_admitted : MessageOf(times.status());
  SetScheduleCondition(
      schedule, condition::kReady, why.empty(),
      why.empty()  ? "Valid"
      : times.ok() ? kube::kNotAdmitted
                   : "InvalidSpec",
      why.empty() ? "runs are started when they are due" : StrCat("no runs are started: ", why),
      now, status);
  status.next_schedule.reset();
  const std::string timing = schedule.timing.Text();
  const bool same = times.ok() && !WasSuspended(schedule.status) &&
                    (schedule.status.timing.empty() || schedule.status.timing == timing);
  AdoptRuns(schedule, same ? &*times : nullptr, runs, now, status);
  CountEnded(runs, decision);
  policy::Retention retention = policy::DecideRetention(schedule, NewestFirst(runs), bounds, now);
  decision.remove = std::move(retention.remove);
  decision.look_again = retention.look_again;
  if (!times.ok()) return decision;
  SetScheduleCondition(
      schedule, condition::kSuspended, schedule.suspend, schedule.suspend ? "Suspended" : "Active",
      schedule.suspend ? "no runs are started: suspend is true" : "suspend is false", now, status);
  if (schedule.suspend) return decision;
  status.decided_until = DecidedUntil(schedule, timing, now, decision);
  status.timing = timing;
  if (const ScheduleTimes::Passed passed = times->Between(*status.decided_until, now); passed.last)
    DecideDue(schedule, passed, now, decision);
  if (schedule.concurrency == ConcurrencyPolicy::kReplace) DecideReplaced(runs, decision);
  status.next_schedule = times->Next(std::max(*status.decided_until, now));
  if (status.next_schedule) {
    decision.look_again = std::min<Nanos>(
        {*status.next_schedule - now, kMaxSleep, decision.look_again.value_or(kMaxSleep)});
  }
  // The times that pass are told as skipped runs.
  if (!schedule.not_admitted.empty()) status.next_schedule.reset();
  return decision;
}

ScheduleStatus Started(ScheduleStatus status, const DueRun& due) {
  status.last_schedule = due.time;
  status.last_run = due.name;
  ++status.started;
  status.active.push_back({due.name, due.time});
  return status;
}

ScheduleStatus Skipped(ScheduleStatus status, WallTime time, std::string reason,
                       std::string message) {
  ++status.skipped;
  status.last_skip = SkippedRun{time, std::move(reason), CutUtf8(message, kMaxSkipBytes)};
  return status;
}

}  // namespace strobe::schedule
