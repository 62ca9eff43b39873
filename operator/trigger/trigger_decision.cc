#include "operator/trigger/trigger_decision.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/strings.h"
#include "common/text/utf8.h"
#include "operator/trigger/trigger_budget.h"

namespace strobe {
namespace {

constexpr std::size_t kMaxShownJobs = 16, kMaxSkipReasons = 32, kMaxTriggerMessageBytes = 512;
// Timers follow the monotonic clock. Somebody may set the wall clock, so it is looked at this
// often.
constexpr Nanos kMaxRest = std::chrono::minutes(10), kMinRest = std::chrono::seconds(1);

std::string WhatStarts(const ProfileTrigger& trigger) {
  const bool alerts = !trigger.alerts.match_labels.empty();
  if (!trigger.signs.any()) return "matching alerts start captures";
  return alerts ? "matching alerts and signs of workers start captures"
                : "signs of workers start captures";
}

void SetTriggerConditions(const ProfileTrigger& trigger, WallTime now, TriggerStatus& status) {
  const auto put = [&](const char* type, bool holds, const char* reason, std::string message) {
    PutCondition(trigger.status.conditions, now,
                 Condition{.type = type,
                           .status = holds ? ConditionStatus::kTrue : ConditionStatus::kFalse,
                           .reason = reason,
                           .message = CutUtf8(message, kMaxTriggerMessageBytes),
                           .observed_generation = trigger.generation},
                 status.conditions);
  };
  const bool valid = trigger.invalid.empty();
  const std::string& why = valid ? trigger.not_admitted : trigger.invalid;
  put(condition::kReady, why.empty(),
      why.empty() ? "Valid"
      : valid     ? kNotAdmitted
                  : "InvalidSpec",
      why.empty() ? WhatStarts(trigger) : StrCat("no captures are started: ", why));
  put(condition::kSuspended, trigger.suspend, trigger.suspend ? "Suspended" : "Active",
      trigger.suspend ? "no captures are started: suspend is true" : "suspend is false");
}

void Count(const TriggerNotes& notes, TriggerStatus& status) {
  for (const auto& [reason, count] : notes.skipped) {
    if (status.skipped.contains(reason) || status.skipped.size() < kMaxSkipReasons)
      status.skipped[reason] += count;
  }
  status.last_alert = std::max(status.last_alert, notes.last_alert);
  if (notes.last_skip) status.last_skip = notes.last_skip;
}

// Captures are counted by their runs, because an operator that ends forgets what it has not
// written. `runs` are sorted, the newest first.
void CountCaptures(const std::vector<TriggerRun>& runs, TriggerStatus& status) {
  const auto is_new = [&](const TriggerRun& run) {
    return !status.last_capture ||
           std::pair(run.created, run.name) >
               std::pair(status.last_capture->time, status.last_capture->run);
  };
  status.taken += std::count_if(runs.begin(), runs.end(), is_new);
  if (runs.empty() || !is_new(runs.front())) return;
  const TriggerRun& last = runs.front();
  status.last_capture = LastCapture{.time = last.created,
                                    .run = last.name,
                                    .job = last.job,
                                    .alert = last.alert_name,
                                    .sign = last.sign};
}

// The jobs that were captured last. `runs` are sorted, the newest first.
std::vector<JobUse> UsesOf(const ProfileTrigger& trigger, const std::vector<TriggerRun>& runs,
                           WallTime now) {
  std::vector<JobUse> uses;
  std::set<std::string> seen;
  for (const TriggerRun& run : runs) {
    if (uses.size() == kMaxShownJobs) break;
    if (run.created + kBudgetDay <= now || !seen.insert(run.job).second) continue;
    uses.push_back(UseOf(trigger, run.job, runs, now));
    // Rounded as in the stored status, so that it equals what is read back.
    uses.back().recorded = std::chrono::ceil<std::chrono::seconds>(uses.back().recorded);
  }
  return uses;
}

}  // namespace

void TriggerNotes::AddEarlier(const TriggerNotes& earlier) {
  for (const auto& [reason, count] : earlier.skipped) skipped[reason] += count;
  last_alert = std::max(last_alert, earlier.last_alert);
  if (!last_skip) last_skip = earlier.last_skip;
}

TriggerDecision DecideTrigger(const ProfileTrigger& trigger, const std::vector<TriggerRun>& all,
                              const TriggerNotes& notes, const std::optional<SeriesBounds>& bounds,
                              WallTime now) {
  std::vector<TriggerRun> runs = all;
  std::sort(runs.begin(), runs.end(), [](const TriggerRun& a, const TriggerRun& b) {
    return std::pair(a.created, a.name) > std::pair(b.created, b.name);
  });
  TriggerDecision decision;
  TriggerStatus& status = decision.status = trigger.status;
  status.observed_generation = trigger.generation;
  SetTriggerConditions(trigger, now, status);
  Count(notes, status);
  status.active =
      static_cast<std::size_t>(std::count_if(runs.begin(), runs.end(), [](const TriggerRun& run) {
        return run.state == RunState::kUnfinished;
      }));
  CountCaptures(runs, status);
  status.budgets = UsesOf(trigger, runs, now);
  Retention retention = DecideRetention(trigger, {runs.begin(), runs.end()}, bounds, now);
  decision.remove = std::move(retention.remove);
  decision.look_again = retention.look_again;
  // The status tells what was used in the last 24 hours.
  for (const TriggerRun& run : runs) {
    const Nanos left = run.created + kBudgetDay - now;
    if (left > Nanos{0})
      decision.look_again = std::clamp(left, kMinRest, decision.look_again.value_or(kMaxRest));
  }
  return decision;
}

}  // namespace strobe
