#include "operator/trigger/trigger_decision.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::trigger {
namespace {

constexpr std::size_t kMaxShownName = 128;

// Empty if the alert has no such label.
std::string AlertLabel(const Alert& alert, const std::string& name) {
  const auto found = alert.labels.find(name);
  return name.empty() || found == alert.labels.end() ? "" : found->second;
}

bool IsOwnedBy(const job::PodInfo& pod, std::string_view kind) {
  return std::any_of(pod.owners.begin(), pod.owners.end(),
                     [&](const job::PodInfo::Owner& owner) { return owner.kind == kind; });
}

// If several kinds write the same label, the kind that owns the pod counts. An MPIJob's launcher is
// owned by a Job, which the MPIJob owns.
bool IsOfKind(const job::PodInfo& pod, const kube::JobKind& kind) {
  if (kind.group == "kubeflow.org")
    return IsOwnedBy(pod, kind.kind) || (kind.kind == "MPIJob" && IsOwnedBy(pod, "Job"));
  return true;
}

std::optional<kube::JobRef> JobOfLabel(const job::PodInfo& pod, const kube::JobKind& kind) {
  if (kind.pods != kube::JobKind::Pods::kLabelled) return std::nullopt;
  const auto label = pod.labels.find(std::string(kind.label));
  if (label == pod.labels.end() || label->second.empty() || !IsOfKind(pod, kind))
    return std::nullopt;
  kube::JobRef job{"", std::string(kind.kind), label->second};
  const kube::JobKind* meant = kube::FindJobKind(job);
  if (meant != nullptr && meant->group != kind.group)
    job.api_version = StrCat(kind.group, "/", kind.versions);
  return job;
}

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

Verdict Refused(std::string reason, std::string message,
                std::optional<WallTime> until = std::nullopt) {
  return {kube::RunRefusal{std::move(reason), std::move(message)}, until, 0};
}

std::optional<Verdict> WhyNoBudget(const ProfileTrigger& trigger,
                                   const std::vector<const TriggerRun*>& own, WallTime now) {
  const Budget& given = trigger.budget;
  std::optional<policy::UsedUp> used_up = policy::WhyUsedUp(
      {given.cool_down, given.captures_per_day, given.duty_cycle, given.bytes_per_day},
      {own.begin(), own.end()}, trigger.duration, now);
  if (!used_up) return std::nullopt;
  const std::string reason = used_up->refusal.reason;
  // The use may still shrink, because a run may have recorded and written less than is counted now.
  const bool may_change = reason == policy::kDutyCycle || reason == policy::kBytesPerDay;
  return Verdict{std::move(used_up->refusal), may_change ? now + kLookAgainAtUse : used_up->until,
                 0};
}

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
    kube::PutCondition(trigger.status.conditions, now,
                       kube::Condition{.type = type,
                                       .status = holds ? kube::ConditionStatus::kTrue
                                                       : kube::ConditionStatus::kFalse,
                                       .reason = reason,
                                       .message = CutUtf8(message, kMaxTriggerMessageBytes),
                                       .observed_generation = trigger.generation},
                       status.conditions);
  };
  const bool valid = trigger.invalid.empty();
  const std::string& why = valid ? trigger.not_admitted : trigger.invalid;
  put(condition::kReady, why.empty(),
      why.empty() ? "Valid"
      : valid     ? kube::kNotAdmitted
                  : "InvalidSpec",
      why.empty() ? WhatStarts(trigger) : StrCat("no captures are started: ", why));
  put(condition::kSuspended, trigger.suspend, trigger.suspend ? "Suspended" : "Active",
      trigger.suspend ? "no captures are started: suspend is true" : "suspend is false");
}

void Count(const Notes& notes, TriggerStatus& status) {
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
std::vector<policy::JobUse> UsesOf(const ProfileTrigger& trigger,
                                   const std::vector<TriggerRun>& runs, WallTime now) {
  std::vector<policy::JobUse> uses;
  std::set<std::string> seen;
  for (const TriggerRun& run : runs) {
    if (uses.size() == kMaxShownJobs) break;
    if (run.created + policy::kBudgetDay <= now || !seen.insert(run.job).second) continue;
    uses.push_back(UseOf(trigger, run.job, runs, now));
    // Rounded as in the stored status, so that it equals what is read back.
    uses.back().recorded = std::chrono::ceil<std::chrono::seconds>(uses.back().recorded);
  }
  return uses;
}

constexpr std::size_t kMaxRepeatedBytes = 512, kMaxVerdictLineBytes = 1024, kMaxComparedStalls = 10;

using Culprit = TriggerRun::Culprit;

// In how many stalls, from the newest one on without a gap, somebody is named of whom `is` is true.
template <typename Is>
std::size_t Streak(const std::vector<const TriggerRun*>& stalls, const Is& is) {
  std::size_t streak = 0;
  while (streak < std::min(stalls.size(), kMaxComparedStalls) &&
         std::any_of(stalls[streak]->culprits.begin(), stalls[streak]->culprits.end(), is))
    ++streak;
  return streak;
}

std::string InTheLast(std::size_t streak) { return StrCat(" in the last ", streak, " stalls"); }

}  // namespace

bool MatchesAlert(const ProfileTrigger& trigger, const Alert& alert) {
  if (trigger.alerts.match_labels.empty()) return false;  // It waits for signs only.
  if (AlertLabel(alert, trigger.alerts.namespace_label) != trigger.ns) return false;
  return std::all_of(trigger.alerts.match_labels.begin(), trigger.alerts.match_labels.end(),
                     [&](const auto& wanted) {
                       const auto found = alert.labels.find(wanted.first);
                       return found != alert.labels.end() && found->second == wanted.second;
                     });
}

std::string AlertId(const Alert& alert) {
  return StrCat(CutUtf8(alert.fingerprint, kMaxFingerprintBytes), "@",
                FormatRfc3339(alert.starts, 3));
}

std::string NameOfAlert(const Alert& alert) {
  return CutUtf8(AlertLabel(alert, "alertname"), kMaxShownName);
}

AlertTarget TargetOfAlert(const ProfileTrigger& trigger, const Alert& alert) {
  AlertTarget target;
  if (trigger.has_target) return target;
  if (alert.sign_job) {
    target.job = alert.sign_job;
    return target;
  }
  const TriggerAlerts& asked = trigger.alerts;
  if (std::string job = AlertLabel(alert, asked.job_label); !job.empty()) {
    target.job = kube::JobRef{"", asked.job_kind, std::move(job)};
  } else if (std::string pod = AlertLabel(alert, asked.pod_label); !pod.empty()) {
    target.pod = std::move(pod);
  } else {
    const bool both = !asked.job_label.empty() && !asked.pod_label.empty();
    target.missing = StrCat(asked.job_label, both ? " or " : "", asked.pod_label);
    if (target.missing.empty()) target.missing = "(podLabel and jobLabel are empty)";
  }
  return target;
}

kube::JobRef JobOfPod(const job::PodInfo& pod) {
  // Kinds that create batch Jobs are tried before batch Jobs themselves.
  for (const bool batch : {false, true}) {
    for (const kube::JobKind& kind : kube::AllJobKinds()) {
      if ((kind.group == "batch") != batch) continue;
      if (std::optional<kube::JobRef> job = JobOfLabel(pod, kind)) return *std::move(job);
    }
  }
  for (const job::PodInfo::Owner& owner : pod.owners) {
    const kube::JobKind* kind = kube::FindJobKind({"", owner.kind, owner.name});
    if (kind != nullptr && kind->pods == kube::JobKind::Pods::kOwned)
      return kube::JobRef{"", owner.kind, owner.name};
  }
  return kube::JobRef{"", "Pod", pod.name};
}

policy::JobUse UseOf(const ProfileTrigger& trigger, const std::string& job,
                     const std::vector<TriggerRun>& runs, WallTime now) {
  policy::JobUse use{.job = job};
  for (const TriggerRun& run : runs)
    if (IsOf(trigger, job, run)) policy::AddUse(run, now, use);
  return use;
}

std::optional<kube::RunRefusal> WhyTriggerRests(const ProfileTrigger& trigger) {
  if (!trigger.invalid.empty()) return kube::RunRefusal{kTriggerInvalid, trigger.invalid};
  if (trigger.suspend) return kube::RunRefusal{kTriggerSuspended, "suspend is true"};
  return std::nullopt;
}

std::optional<kube::RunRefusal> WhyAlertIsPast(const Alert& alert, WallTime now) {
  if (alert.starts + policy::kBudgetDay > now) return std::nullopt;
  return kube::RunRefusal{kAlertTooOld,
                          StrCat("the alert has been firing since ", FormatRfc3339(alert.starts),
                                 ", which is more than 24 hours")};
}

Verdict DecideCapture(const ProfileTrigger& trigger, const Alert& alert, const std::string& job,
                      const std::vector<TriggerRun>& runs, WallTime now) {
  const std::vector<const TriggerRun*> own = OwnRuns(trigger, job, runs);
  Verdict verdict;
  verdict.number = 1;
  for (const TriggerRun* run : own) {
    verdict.number = std::max(verdict.number, NumberOfTriggeredRun(run->name) + 1);
    // Creation times are whole seconds. The alert's own run is known by its name too, because the
    // clock of the alert's sender may be ahead.
    if (run->alert == AlertId(alert) || kube::WholeSeconds(alert.starts) <= run->created)
      return Refused(kAlreadyCaptured,
                     StrCat(run->name, " was started at ", FormatRfc3339(run->created),
                            ", after the alert began"));
  }
  const auto active = std::find_if(runs.begin(), runs.end(), [&](const TriggerRun& run) {
    return run.job == job && run.state == kube::RunState::kUnfinished;
  });
  if (active != runs.end())
    return Refused(kRunActive, StrCat(active->name, " is under way"), now + kLookAgain);
  if (std::optional<Verdict> refused = WhyNoBudget(trigger, own, now)) return *std::move(refused);
  return verdict;
}

void Notes::AddEarlier(const Notes& earlier) {
  for (const auto& [reason, count] : earlier.skipped) skipped[reason] += count;
  last_alert = std::max(last_alert, earlier.last_alert);
  if (!last_skip) last_skip = earlier.last_skip;
}

Decision DecideTrigger(const ProfileTrigger& trigger, const std::vector<TriggerRun>& all,
                       const Notes& notes, const std::optional<policy::SeriesBounds>& bounds,
                       WallTime now) {
  std::vector<TriggerRun> runs = all;
  std::sort(runs.begin(), runs.end(), [](const TriggerRun& a, const TriggerRun& b) {
    return std::pair(a.created, a.name) > std::pair(b.created, b.name);
  });
  Decision decision;
  TriggerStatus& status = decision.status = trigger.status;
  status.observed_generation = trigger.generation;
  SetTriggerConditions(trigger, now, status);
  Count(notes, status);
  status.active =
      static_cast<std::size_t>(std::count_if(runs.begin(), runs.end(), [](const TriggerRun& run) {
        return run.state == kube::RunState::kUnfinished;
      }));
  CountCaptures(runs, status);
  status.last_stall = LastStallOf(runs, status.last_stall);
  status.budgets = UsesOf(trigger, runs, now);
  policy::Retention retention =
      policy::DecideRetention(trigger, {runs.begin(), runs.end()}, bounds, now);
  decision.remove = std::move(retention.remove);
  decision.look_again = retention.look_again;
  // The status tells what was used in the last 24 hours.
  for (const TriggerRun& run : runs) {
    const Nanos left = run.created + policy::kBudgetDay - now;
    if (left > Nanos{0})
      decision.look_again = std::clamp(left, kMinRest, decision.look_again.value_or(kMaxRest));
  }
  return decision;
}

std::string RepeatedCulprit(const std::vector<const TriggerRun*>& stalls) {
  if (stalls.empty()) return "";
  std::vector<std::string> parts;
  const auto add = [&parts](std::string part) {
    if (std::find(parts.begin(), parts.end(), part) == parts.end())
      parts.push_back(std::move(part));
  };
  for (const Culprit& named : stalls.front()->culprits) {
    const std::size_t by_rank = Streak(
        stalls, [&](const Culprit& one) { return named.rank >= 0 && one.rank == named.rank; });
    const std::size_t by_node = Streak(
        stalls, [&](const Culprit& one) { return !named.node.empty() && one.node == named.node; });
    const std::size_t by_both = Streak(stalls, [&](const Culprit& one) {
      return !named.node.empty() && one.node == named.node && one.rank == named.rank;
    });
    if (by_both >= 2 && by_both >= by_rank && by_both >= by_node) {
      add(StrCat("rank ", named.rank, " on ", named.node, InTheLast(by_both)));
      continue;
    }
    if (by_rank >= 2) add(StrCat("rank ", named.rank, InTheLast(by_rank)));
    if (by_node >= 2) add(StrCat("node ", named.node, InTheLast(by_node)));
  }
  return CutUtf8(Join(parts, "; "), kMaxRepeatedBytes);
}

std::optional<LastStall> LastStallOf(const std::vector<TriggerRun>& runs,
                                     const std::optional<LastStall>& former) {
  const auto newest =
      std::find_if(runs.begin(), runs.end(), [](const TriggerRun& run) { return run.stalled; });
  const bool withdrawn =
      former && std::any_of(runs.begin(), runs.end(), [&](const TriggerRun& run) {
        return run.name == former->run && run.created == former->time && !run.stalled;
      });
  if (newest == runs.end()) return withdrawn ? std::nullopt : former;
  if (former && !withdrawn && newest->created < former->time) return former;
  std::vector<const TriggerRun*> stalls;
  for (const TriggerRun& run : runs)
    if (run.stalled && run.job == newest->job) stalls.push_back(&run);
  return LastStall{.time = newest->created,
                   .run = newest->name,
                   .job = newest->job,
                   .kind = newest->stall_class,
                   .confidence = newest->stall_confidence,
                   .verdict = CutUtf8(newest->stall_verdict, kMaxVerdictLineBytes),
                   .repeated = RepeatedCulprit(stalls)};
}

}  // namespace strobe::trigger
