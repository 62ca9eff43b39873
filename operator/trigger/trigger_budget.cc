#include "operator/trigger/trigger_budget.h"

#include <algorithm>

#include "common/base/strings.h"
#include "operator/trigger/trigger_match.h"

namespace strobe {
namespace {

// How long the answer holds that a capture is under way, or that too much was recorded: it may
// change at any time.
constexpr Nanos kLookAgain = std::chrono::seconds(5), kLookAgainAtUse = std::chrono::minutes(1);

bool IsOf(const ProfileTrigger& trigger, const std::string& job, const TriggerRun& run) {
  return run.trigger_uid == trigger.uid && run.job == job;
}

// The trigger's runs of the job, the newest first.
std::vector<const TriggerRun*> OwnRuns(const ProfileTrigger& trigger, const std::string& job,
                                       const std::vector<TriggerRun>& runs) {
  std::vector<const TriggerRun*> own;
  for (const TriggerRun& run : runs)
    if (IsOf(trigger, job, run)) own.push_back(&run);
  std::sort(own.begin(), own.end(),
            [](const TriggerRun* a, const TriggerRun* b) { return a->created > b->created; });
  return own;
}

TriggerVerdict Refused(std::string reason, std::string message,
                       std::optional<WallTime> until = std::nullopt) {
  return {RunRefusal{std::move(reason), std::move(message)}, until, 0};
}

std::optional<TriggerVerdict> WhyNoBudget(const ProfileTrigger& trigger,
                                          const std::vector<const TriggerRun*>& own, WallTime now) {
  const TriggerBudget& given = trigger.budget;
  std::optional<UsedUp> used_up =
      WhyUsedUp({given.cool_down, given.captures_per_day, given.duty_cycle, given.bytes_per_day},
                {own.begin(), own.end()}, trigger.duration, now);
  if (!used_up) return std::nullopt;
  const std::string reason = used_up->refusal.reason;
  // The use may still shrink, because a run may have recorded and written less than is counted now.
  const bool may_change = reason == kDutyCycle || reason == kBytesPerDay;
  return TriggerVerdict{std::move(used_up->refusal),
                        may_change ? now + kLookAgainAtUse : used_up->until, 0};
}

}  // namespace

JobUse UseOf(const ProfileTrigger& trigger, const std::string& job,
             const std::vector<TriggerRun>& runs, WallTime now) {
  JobUse use{.job = job};
  for (const TriggerRun& run : runs)
    if (IsOf(trigger, job, run)) AddUse(run, now, use);
  return use;
}

std::optional<RunRefusal> WhyTriggerRests(const ProfileTrigger& trigger) {
  if (!trigger.invalid.empty()) return RunRefusal{kTriggerInvalid, trigger.invalid};
  if (trigger.suspend) return RunRefusal{kTriggerSuspended, "suspend is true"};
  return std::nullopt;
}

std::optional<RunRefusal> WhyAlertIsPast(const Alert& alert, WallTime now) {
  if (alert.starts + kBudgetDay > now) return std::nullopt;
  return RunRefusal{kAlertTooOld,
                    StrCat("the alert has been firing since ", FormatRfc3339(alert.starts),
                           ", which is more than 24 hours")};
}

TriggerVerdict DecideCapture(const ProfileTrigger& trigger, const Alert& alert,
                             const std::string& job, const std::vector<TriggerRun>& runs,
                             WallTime now) {
  const std::vector<const TriggerRun*> own = OwnRuns(trigger, job, runs);
  TriggerVerdict verdict;
  verdict.number = 1;
  for (const TriggerRun* run : own) {
    verdict.number = std::max(verdict.number, NumberOfTriggeredRun(run->name) + 1);
    // Creation times are whole seconds. The alert's own run is known by its name too, because the
    // clock of whoever made the alert may be ahead.
    if (run->alert == AlertId(alert) || WholeSeconds(alert.starts) <= run->created)
      return Refused(kAlreadyCaptured,
                     StrCat(run->name, " was started at ", FormatRfc3339(run->created),
                            ", after the alert began"));
  }
  const auto active = std::find_if(runs.begin(), runs.end(), [&](const TriggerRun& run) {
    return run.job == job && run.state == RunState::kUnfinished;
  });
  if (active != runs.end())
    return Refused(kRunActive, StrCat(active->name, " is under way"), now + kLookAgain);
  if (std::optional<TriggerVerdict> refused = WhyNoBudget(trigger, own, now))
    return *std::move(refused);
  return verdict;
}

}  // namespace strobe
