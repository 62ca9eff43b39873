#include "operator/trigger/sign_rules.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/duration.h"
#include "common/base/enum_names.h"
#include "common/base/hash.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "operator/trigger/trigger_decision.h"

namespace strobe::trigger {
namespace {

std::int64_t PercentOver(Nanos now, Nanos usual) {
  return usual.count() <= 0 ? 0 : 100 * (now - usual).count() / usual.count();
}

std::string Counted(std::uint64_t count, std::string_view what) {
  return StrCat(count, " ", what, count == 1 ? "" : "s");
}

// The batch of an inference server's iteration; empty if it is not known.
std::string BatchWords(const ReportedSign& sign) {
  if (sign.batch_requests == 0) return "";
  return StrCat(" of ", Counted(sign.batch_requests, "request"), " and ",
                Counted(sign.batch_tokens, "token"));
}

std::string QueueWords(const ReportedSign& sign) {
  if (sign.running + sign.waiting == 0) return "";
  return StrCat(" while ", Counted(sign.running, "request"), sign.running == 1 ? " runs" : " run",
                " and ", sign.waiting, sign.waiting == 1 ? " waits" : " wait");
}

// What was seen, as a sentence.
std::string WordsOf(const SignRule& rule, const ReportedSign& sign, const SignWorker& worker) {
  const std::string where = StrCat(worker.name, ": ");
  const std::string steps = StrCat(sign.loop.empty() ? "" : StrCat("of ", sign.loop, " "),
                                   sign.process.empty() ? "" : StrCat("in ", sign.process, " "));
  const std::string ago = StrCat("; it began ", FormatDuration(sign.began_ago), " before");
  switch (rule.kind) {
    case SignKind::kStepsSlower:
      return StrCat(where, "steps ", steps, "take ", FormatDuration(sign.step), " instead of ",
                    FormatDuration(sign.usual_step), ", ", PercentOver(sign.step, sign.usual_step),
                    "% more", ago);
    case SignKind::kSlowerThanOthers:
      return StrCat(where, "steps ", steps, "take ", FormatDuration(sign.step),
                    ", but those of the other workers take ", FormatDuration(sign.usual_step), ago);
    case SignKind::kNoStep:
      return StrCat(where, "no step ", steps, "has begun for ", FormatDuration(sign.began_ago),
                    QueueWords(sign), "; a step usually takes ", FormatDuration(sign.usual_step));
    case SignKind::kStalled:
      return StrCat(where, "no step ", steps, "and no collective has begun for ",
                    FormatDuration(sign.began_ago), QueueWords(sign),
                    sign.usual_step > Nanos{0}
                        ? StrCat("; a step usually takes ", FormatDuration(sign.usual_step))
                        : std::string());
    case SignKind::kMemoryNearLimit:
      return StrCat(where, "uses ", sign.memory_used >> 20, " of ", sign.memory_limit >> 20,
                    " MiB of memory", ago);
    case SignKind::kIterationSlower:
      return StrCat(where, "an iteration", BatchWords(sign),
                    sign.process.empty() ? "" : StrCat(" in ", sign.process), " took ",
                    FormatDuration(sign.step), " instead of ", FormatDuration(sign.usual_step),
                    ", ", PercentOver(sign.step, sign.usual_step), "% more than those of like size",
                    ago);
  }
  return where;
}

}  // namespace

std::string_view NameOf(SignKind kind) {
  static constexpr EnumNames<SignKind, 6> kNames({{SignKind::kStepsSlower, "StepsSlower"},
                                                  {SignKind::kNoStep, "NoStep"},
                                                  {SignKind::kMemoryNearLimit, "MemoryNearLimit"},
                                                  {SignKind::kSlowerThanOthers, "SlowerThanOthers"},
                                                  {SignKind::kStalled, "Stalled"},
                                                  {SignKind::kIterationSlower, "IterationSlower"}});
  return kNames.Of(kind);
}

SignWorker SignWorkerOf(const job::PodInfo& pod) {
  return {.name = pod.name, .uid = pod.uid, .labels = pod.labels, .job = JobOfPod(pod)};
}

bool AsksForSigns(const ProfileTrigger& trigger, const SignWorker& worker) {
  if (!trigger.signs.any() || WhyTriggerRests(trigger)) return false;
  const TriggerTarget& target = trigger.target;
  if (!trigger.has_target) return true;
  if (!target.pods.empty())
    return std::find(target.pods.begin(), target.pods.end(), worker.name) != target.pods.end();
  if (target.selector) return target.selector->Matches(worker.labels);
  return job::JobText(worker.job) == trigger.target_job;
}

std::vector<SignRule> RulesOf(const ProfileTrigger& trigger) {
  const TriggerSigns& signs = trigger.signs;
  std::vector<SignRule> rules;
  const auto add = [&](SignKind kind, std::uint32_t percent, std::uint32_t steps, Nanos duration) {
    rules.push_back({.id = StrCat(trigger.name, "/", NameOf(kind)),
                     .kind = kind,
                     .percent = percent,
                     .steps = steps,
                     .duration = duration});
  };
  if (signs.steps_slower)
    add(SignKind::kStepsSlower, signs.steps_slower->percent, signs.steps_slower->steps, {});
  if (signs.no_step_for) add(SignKind::kNoStep, 0, 0, *signs.no_step_for);
  if (signs.memory_percent > 0) add(SignKind::kMemoryNearLimit, signs.memory_percent, 0, {});
  if (signs.stalled) add(SignKind::kStalled, 0, signs.stalled->steps, signs.stalled->at_least);
  if (signs.slower_than_others) {
    add(SignKind::kSlowerThanOthers, signs.slower_than_others->percent,
        signs.slower_than_others->steps, {});
  }
  if (signs.iteration_slower) {
    add(SignKind::kIterationSlower, signs.iteration_slower->percent, signs.iteration_slower->steps,
        {});
  }
  return rules;
}

std::optional<SignRule> FindRule(const ProfileTrigger& trigger, const std::string& id) {
  for (SignRule& rule : RulesOf(trigger))
    if (rule.id == id) return std::move(rule);
  return std::nullopt;
}

Alert AlertOfSign(const SignRule& rule, const ReportedSign& sign, const SignWorker& worker,
                  WallTime now) {
  Alert alert;
  alert.firing = true;
  alert.starts = now - std::clamp(sign.began_ago, Nanos{0}, kMaxSignAge);
  alert.labels = {{"alertname", std::string(NameOf(rule.kind))}, {"pod", worker.name}};
  alert.fingerprint = absl::StrFormat(
      "%016x", Fnv1a(StrCat(rule.id, "\n", worker.uid, "\n", sign.process, "\n", sign.loop)));
  alert.sign = CutUtf8(WordsOf(rule, sign, worker), kMaxAlertValueBytes);
  alert.sign_job = worker.job;
  return alert;
}

}  // namespace strobe::trigger
