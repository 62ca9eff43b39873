#include "operator/trigger/trigger.h"

#include <charconv>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "operator/base/condition.h"
#include "operator/base/json_fields.h"
#include "operator/base/label_selector.h"
#include "operator/base/names.h"
#include "operator/objects/request.h"
#include "operator/policy/capture_budget.h"

namespace strobe::trigger {
namespace {

// Enough to tell the jobs of a namespace apart, and short enough to be read.
constexpr std::size_t kHashInName = 8;

using Json = nlohmann::json;

// The schema has the same defaults and bounds.
constexpr std::uint32_t kDefaultSlowPercent = 50, kMinSlowPercent = 10, kMaxSlowPercent = 10'000;
constexpr std::uint32_t kDefaultSlowSteps = 10, kMinSlowSteps = 3, kMaxSlowSteps = 10'000;
// By default, an iteration takes three times as long as those of like batches.
constexpr std::uint32_t kDefaultIterationPercent = 200, kMaxIterations = 1000;
constexpr std::uint32_t kDefaultMemoryPercent = 90, kMinMemoryPercent = 50;
constexpr Nanos kMinNoStep = std::chrono::seconds(5), kMaxNoStep = std::chrono::hours(24);
constexpr Nanos kMinStill = std::chrono::seconds(1), kMaxStill = std::chrono::hours(1);
constexpr std::uint32_t kMinStillSteps = 2, kMaxStillSteps = 10'000;
constexpr char kSomeJob[] = "the-alert-names-it";

absl::Status ReadAlerts(const Json& spec, TriggerAlerts& alerts) {
  const Json given = spec.value("alerts", Json());
  if (given.is_null()) return absl::OkStatus();
  alerts.match_labels = given.value("matchLabels", alerts.match_labels);
  alerts.namespace_label = given.value("namespaceLabel", alerts.namespace_label);
  alerts.pod_label = given.value("podLabel", alerts.pod_label);
  alerts.job_label = given.value("jobLabel", alerts.job_label);
  alerts.job_kind = given.value("jobKind", alerts.job_kind);
  if (alerts.match_labels.empty())
    return absl::InvalidArgumentError("alerts.matchLabels: give at least one label");
  if (alerts.namespace_label.empty())
    return absl::InvalidArgumentError("alerts.namespaceLabel: it must not be empty");
  const kube::JobRef job{"", alerts.job_kind, kSomeJob};
  if (kube::FindJobKind(job) == nullptr)
    return absl::InvalidArgumentError(StrCat("alerts.jobKind: ", kube::UnknownJobKind(job)));
  return absl::OkStatus();
}

// InvalidArgument for what the schema refuses, because an older schema may be installed.
absl::StatusOr<SlowSteps> ReadSlowSteps(const Json& given, const std::string& field) {
  const SlowSteps slow{given.value("percent", kDefaultSlowPercent),
                       given.value("steps", kDefaultSlowSteps)};
  if (slow.percent < kMinSlowPercent || slow.percent > kMaxSlowPercent)
    return absl::InvalidArgumentError(StrCat(field, ".percent: it must be from 10 to 10000"));
  if (slow.steps < kMinSlowSteps || slow.steps > kMaxSlowSteps)
    return absl::InvalidArgumentError(StrCat(field, ".steps: it must be from 3 to 10000"));
  return slow;
}

absl::StatusOr<StandsStill> ReadStalled(const Json& given) {
  StandsStill still;
  if (const absl::Status read = kube::ReadDuration(given, "forAtLeast", still.at_least); !read.ok())
    return absl::InvalidArgumentError(StrCat("signs.stalled.", MessageOf(read)));
  still.steps = given.value("steps", still.steps);
  if (still.at_least < kMinStill || still.at_least > kMaxStill)
    return absl::InvalidArgumentError("signs.stalled.forAtLeast: it must be from 1s to 1h");
  if (still.steps < kMinStillSteps || still.steps > kMaxStillSteps)
    return absl::InvalidArgumentError("signs.stalled.steps: it must be from 2 to 10000");
  return still;
}

absl::StatusOr<SlowSteps> ReadSlowIterations(const Json& given) {
  const SlowSteps slow{given.value("percent", kDefaultIterationPercent),
                       given.value("iterations", std::uint32_t{1})};
  if (slow.percent < kMinSlowPercent || slow.percent > kMaxSlowPercent)
    return absl::InvalidArgumentError("signs.iterationSlower.percent: it must be from 10 to 10000");
  if (slow.steps < 1 || slow.steps > kMaxIterations)
    return absl::InvalidArgumentError(
        "signs.iterationSlower.iterations: it must be from 1 to 1000");
  return slow;
}

absl::Status ReadSigns(const Json& spec, TriggerSigns& signs) {
  const Json given = spec.value("signs", Json());
  if (given.is_null()) return absl::OkStatus();
  if (given.contains("stepsSlower")) {
    ASSIGN_OR_RETURN(signs.steps_slower, ReadSlowSteps(given["stepsSlower"], "signs.stepsSlower"));
  }
  if (given.contains("slowerThanOthers")) {
    ASSIGN_OR_RETURN(signs.slower_than_others,
                     ReadSlowSteps(given["slowerThanOthers"], "signs.slowerThanOthers"));
  }
  if (given.contains("iterationSlower")) {
    ASSIGN_OR_RETURN(signs.iteration_slower, ReadSlowIterations(given["iterationSlower"]));
  }
  if (given.contains("noStepFor")) {
    signs.no_step_for.emplace();
    if (const absl::Status read = kube::ReadDuration(given, "noStepFor", *signs.no_step_for);
        !read.ok())
      return absl::InvalidArgumentError(StrCat("signs.", MessageOf(read)));
    if (*signs.no_step_for < kMinNoStep || *signs.no_step_for > kMaxNoStep)
      return absl::InvalidArgumentError("signs.noStepFor: it must be from 5s to 24h");
  }
  if (given.contains("memoryNearLimit")) {
    signs.memory_percent = given["memoryNearLimit"].value("percent", kDefaultMemoryPercent);
    if (signs.memory_percent < kMinMemoryPercent || signs.memory_percent > 100)
      return absl::InvalidArgumentError("signs.memoryNearLimit.percent: it must be from 50 to 100");
  }
  if (given.contains("stalled")) {
    ASSIGN_OR_RETURN(signs.stalled, ReadStalled(given["stalled"]));
  }
  return signs.any() ? absl::OkStatus()
                     : absl::InvalidArgumentError("signs: give at least one sign");
}

absl::Status ReadTriggerBudget(const Json& spec, Budget& budget) {
  ASSIGN_OR_RETURN(const policy::CaptureBudget given,
                   policy::ReadBudget(spec.value("budget", Json::object()), "budget"));
  budget.cool_down = given.cool_down.value_or(budget.cool_down);
  budget.captures_per_day = given.captures_per_day.value_or(budget.captures_per_day);
  budget.duty_cycle = given.duty_cycle;
  budget.bytes_per_day = given.bytes_per_day;
  return absl::OkStatus();
}

absl::Status ReadTriggerTemplate(const Json& spec, ProfileTrigger& trigger) {
  RETURN_IF_ERROR(objects::CheckTemplateLabels(spec));
  Json run = objects::ReadTemplateOf(spec);
  const Json& target = kube::Member(run["spec"], "target");
  trigger.has_target = !target.is_null();
  if (trigger.has_target) {
    ASSIGN_OR_RETURN(trigger.target_job, objects::JobOfRun(run));
    trigger.target.pods = target.value("pods", std::vector<std::string>());
    if (target.contains("selector")) {
      ASSIGN_OR_RETURN(trigger.target.selector,
                       kube::ReadSelector(target["selector"], "template.spec.target.selector"));
    }
  }
  RETURN_IF_ERROR(objects::ApplySample(spec, run, trigger.rotates));
  capture::Spec capture;
  absl::Status read = kube::ReadDuration(run["spec"], "duration", capture.duration);
  read.Update(kube::ReadDuration(run["spec"], "lookBack", capture.look_back));
  if (!read.ok()) return absl::InvalidArgumentError(StrCat("template.spec.", MessageOf(read)));
  trigger.duration = capture.duration + capture.look_back;
  trigger.run_json = JsonText(run);
  return absl::OkStatus();
}

absl::Status ReadTriggerFields(const Json& spec, ProfileTrigger& trigger) {
  RETURN_IF_ERROR(objects::ReadHistory(spec, trigger));
  RETURN_IF_ERROR(ReadAlerts(spec, trigger.alerts));
  RETURN_IF_ERROR(ReadSigns(spec, trigger.signs));
  if (trigger.alerts.match_labels.empty() && !trigger.signs.any())
    return absl::InvalidArgumentError("alerts: give alerts or signs, which start captures");
  RETURN_IF_ERROR(ReadTriggerBudget(spec, trigger.budget));
  RETURN_IF_ERROR(ReadTriggerTemplate(spec, trigger));
  return objects::CheckRun(ExampleRun(trigger));
}

absl::Status ReadTriggerSpec(const Json& spec, ProfileTrigger& trigger) {
  try {
    return ReadTriggerFields(spec, trigger);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(StrCat("a field has the wrong type: ", error.what()));
  }
}

void ReadTriggerStatus(const Json& object, TriggerStatus& status) {
  status.observed_generation = object.value("observedGeneration", std::int64_t{0});
  status.conditions = kube::ReadConditions(object);
  status.last_alert = kube::ReadTime(object, "lastAlertTime");
  status.active = object.value("activeRuns", std::size_t{0});
  if (object.contains("lastCapture")) {
    const Json& last = object["lastCapture"];
    status.last_capture = LastCapture{.time = kube::ReadTime(last, "time").value_or(WallTime{}),
                                      .run = last.value("run", ""),
                                      .job = last.value("job", ""),
                                      .alert = last.value("alert", ""),
                                      .sign = last.value("sign", "")};
  }
  const Json alerts = object.value("alerts", Json::object());
  status.taken = alerts.value("taken", std::int64_t{0});
  status.skipped = alerts.value("skipped", status.skipped);
  if (object.contains("lastSkip")) {
    const Json& skip = object["lastSkip"];
    status.last_skip = SkippedAlert{.time = kube::ReadTime(skip, "time").value_or(WallTime{}),
                                    .reason = skip.value("reason", ""),
                                    .message = skip.value("message", ""),
                                    .job = skip.value("job", "")};
  }
  if (object.contains("lastStall")) {
    const Json& last = object["lastStall"];
    status.last_stall = LastStall{.time = kube::ReadTime(last, "time").value_or(WallTime{}),
                                  .run = last.value("run", ""),
                                  .job = last.value("job", ""),
                                  .kind = last.value("class", ""),
                                  .confidence = last.value("confidence", ""),
                                  .verdict = last.value("verdict", ""),
                                  .repeated = last.value("repeated", "")};
  }
  for (const Json& entry : object.value("budgets", Json::array())) {
    policy::JobUse use;
    use.job = entry.value("job", "");
    use.captures = entry.value("captures", std::size_t{0});
    (void)kube::ReadDuration(entry, "recorded", use.recorded);
    use.bytes = entry.value("bytes", std::uint64_t{0});
    use.last = kube::ReadTime(entry, "lastCaptureTime");
    status.budgets.push_back(std::move(use));
  }
}

Json BudgetsToJson(const std::vector<policy::JobUse>& uses) {
  Json budgets = Json::array();
  for (const policy::JobUse& use : uses) {
    Json entry = {{"job", use.job},
                  {"captures", use.captures},
                  {"recorded", FormatDuration(use.recorded)},
                  {"bytes", use.bytes}};
    if (use.last) entry["lastCaptureTime"] = FormatRfc3339(*use.last);
    budgets.push_back(std::move(entry));
  }
  return budgets;
}

// A worker that stands still has nothing to record, whatever the template records, and each worker
// that is left out may be the one that it waits for.
void AskForEvidence(Json& run) {
  Json& spec = run["spec"];
  spec["record"] = "Evidence";
  for (const char* field : objects::kTimeFields) spec.erase(field);
  spec.erase("preflightOnly");
  if (spec.contains("target")) spec["target"].erase("workers");
  // The schema's default, which it would otherwise add after the run was sealed.
  spec["duration"] = "2s";
}

void ReadStallOf(const Json& request, TriggerRun& run) {
  const Json& status = kube::Member(request, "status");
  const Json& stall = kube::Member(status, "stall");
  run.stall_class = kube::TextOf(stall, "class");
  run.stall_confidence = kube::TextOf(stall, "confidence");
  run.stall_verdict = kube::TextOf(stall, "verdict");
  const Json& conditions = kube::Member(status, "conditions");
  const std::optional<std::size_t> stalled = kube::FindBy(conditions, "type", condition::kStalled);
  run.stalled = stalled && (kube::TextOf(conditions[*stalled], "status") == "True" ||
                            kube::TextOf(conditions[*stalled], "reason") == kube::kStallRestarted);
  const Json& culprits = kube::Member(stall, "culprits");
  if (!culprits.is_array()) return;
  for (const Json& culprit : culprits) {
    const Json& rank = kube::Member(culprit, "rank");
    run.culprits.push_back({.rank = rank.is_number_integer() ? rank.get<int>() : -1,
                            .pod = kube::TextOf(culprit, "pod"),
                            .node = kube::TextOf(culprit, "node")});
  }
}

}  // namespace

std::string TriggeredRunName(std::string_view trigger, std::string_view job, std::int64_t number) {
  return StrCat(trigger, "-", job::JobHash(job).substr(0, kHashInName), "-", number);
}

std::int64_t NumberOfTriggeredRun(std::string_view run) {
  run = kube::UsualRunName(run);
  const std::string_view digits = run.substr(run.rfind('-') + 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && number > 0 ? number : 0;
}

absl::StatusOr<ProfileTrigger> ParseTrigger(const Json& object) {
  try {
    ProfileTrigger trigger;
    objects::ReadCreator(object, trigger);
    ReadTriggerStatus(object.value("status", Json::object()), trigger.status);
    const absl::Status spec = ReadTriggerSpec(object.value("spec", Json::object()), trigger);
    if (!spec.ok()) trigger.invalid = StrCat("spec.", MessageOf(spec));
    if (std::string why = objects::WhyNameTooLong(trigger); !why.empty())
      trigger.invalid = std::move(why);
    return trigger;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(StrCat("a field has the wrong type: ", error.what()));
  }
}

Json TriggerStatusToJson(const ProfileTrigger& trigger, const TriggerStatus& status) {
  std::int64_t skipped = 0;
  for (const auto& [reason, count] : status.skipped) skipped += count;
  Json json = {{"observedGeneration", trigger.generation},
               {"conditions", kube::ConditionsToJson(status.conditions)},
               {"alerts",
                {{"taken", status.taken},
                 {"skipped", status.skipped},
                 {"summary", StrCat(status.taken, "/", status.taken + skipped)}}},
               {"activeRuns", status.active}};
  if (!status.budgets.empty()) json["budgets"] = BudgetsToJson(status.budgets);
  if (status.last_alert) json["lastAlertTime"] = FormatRfc3339(*status.last_alert);
  if (status.last_capture) {
    json["lastCapture"] = {{"time", FormatRfc3339(status.last_capture->time)},
                           {"run", status.last_capture->run},
                           {"job", status.last_capture->job},
                           {"alert", status.last_capture->alert}};
    if (!status.last_capture->sign.empty()) json["lastCapture"]["sign"] = status.last_capture->sign;
  }
  if (status.last_stall) {
    json["lastStall"] = {{"time", FormatRfc3339(status.last_stall->time)},
                         {"run", status.last_stall->run},
                         {"job", status.last_stall->job},
                         {"class", status.last_stall->kind},
                         {"confidence", status.last_stall->confidence},
                         {"verdict", status.last_stall->verdict}};
    if (!status.last_stall->repeated.empty())
      json["lastStall"]["repeated"] = status.last_stall->repeated;
  }
  if (status.last_skip) {
    json["lastSkip"] = {{"time", FormatRfc3339(status.last_skip->time)},
                        {"reason", status.last_skip->reason},
                        {"message", status.last_skip->message},
                        {"job", status.last_skip->job}};
  }
  return objects::CreatorStatus(trigger, std::move(json));
}

Json RunToJson(const ProfileTrigger& trigger, const TriggeredRun& run) {
  Json object = objects::RunOf(trigger, run.name);
  Json& metadata = object["metadata"];
  metadata["labels"][kube::kTriggerLabel] = trigger.name;
  metadata["labels"][kube::kTriggeredJobLabel] = job::JobHash(run.job);
  metadata["annotations"][kube::kTriggeredJobAnnotation] = run.job;
  metadata["annotations"][kube::kAlertAnnotation] = run.alert;
  metadata["annotations"][kube::kAlertNameAnnotation] = run.alert_name;
  if (!run.sign.empty()) metadata["annotations"][kube::kSignAnnotation] = run.sign;
  if (run.target) {
    Json job = {{"kind", run.target->kind}, {"name", run.target->name}};
    if (!run.target->api_version.empty()) job["apiVersion"] = run.target->api_version;
    object["spec"]["target"]["jobRef"] = std::move(job);
  }
  if (trigger.rotates) object["spec"]["target"]["workers"]["turn"] = run.rotation;
  if (!run.sign.empty() && run.alert_name == NameOf(SignKind::kStalled)) AskForEvidence(object);
  return object;
}

Json ExampleRun(const ProfileTrigger& trigger) {
  TriggeredRun run{.name = "run", .job = trigger.target_job};
  if (!trigger.has_target) run.target = kube::JobRef{"", trigger.alerts.job_kind, kSomeJob};
  return RunToJson(trigger, run);
}

TriggerRun ParseTriggeredRun(const Json& request) {
  TriggerRun run{objects::ParseRun(request)};
  const Json& metadata = kube::Member(request, "metadata");
  const Json& annotations = kube::Member(metadata, "annotations");
  run.trigger = kube::TextOf(kube::Member(metadata, "labels"), kube::kTriggerLabel);
  const Json& owners = kube::Member(metadata, "ownerReferences");
  if (const auto owner =
          kube::FindBy(owners, "kind", objects::KindName(kube::CreatorKind::kTrigger)))
    run.trigger_uid = kube::TextOf(owners[*owner], "uid");
  run.job = kube::TextOf(annotations, kube::kTriggeredJobAnnotation);
  run.alert = kube::TextOf(annotations, kube::kAlertAnnotation);
  run.alert_name = kube::TextOf(annotations, kube::kAlertNameAnnotation);
  run.sign = kube::TextOf(annotations, kube::kSignAnnotation);
  ReadStallOf(request, run);
  return run;
}

}  // namespace strobe::trigger
