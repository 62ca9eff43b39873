#include "operator/schedule/schedule.h"

#include <cctype>
#include <utility>

#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "operator/base/condition.h"
#include "operator/base/json_fields.h"
#include "operator/base/label_selector.h"
#include "operator/base/names.h"
#include "operator/base/requester_json.h"
#include "operator/objects/request.h"

namespace strobe::schedule {
namespace {

// As many characters as "20261124-120000" has.
constexpr std::string_view kStampShape = "dddddddd-dddddd";

using Json = nlohmann::json;

// The metadata and spec of runs, with what the schedule itself asks for.
absl::Status ReadTemplate(const Json& spec, ProfileSchedule& schedule) {
  RETURN_IF_ERROR(objects::CheckTemplateLabels(spec));
  Json run = objects::ReadTemplateOf(spec);
  RETURN_IF_ERROR(objects::ApplySample(spec, run, schedule.rotates));
  schedule.run_json = JsonText(run);
  return absl::OkStatus();
}

absl::Status ReadScheduleFields(const Json& spec, ProfileSchedule& schedule) {
  RETURN_IF_ERROR(objects::ReadHistory(spec, schedule));
  schedule.timing.cron = spec.value("schedule", "");
  schedule.timing.time_zone = spec.value("timeZone", "");
  RETURN_IF_ERROR(kube::ReadDuration(spec, "interval", schedule.timing.interval));
  RETURN_IF_ERROR(kube::ReadDuration(spec, "jitter", schedule.timing.jitter));
  RETURN_IF_ERROR(kube::ReadDuration(spec, "startingDeadline", schedule.starting_deadline));
  const std::string policy = spec.value("concurrencyPolicy", "Forbid");
  schedule.concurrency = policy == "Allow"     ? ConcurrencyPolicy::kAllow
                         : policy == "Replace" ? ConcurrencyPolicy::kReplace
                                               : ConcurrencyPolicy::kForbid;
  RETURN_IF_ERROR(ScheduleTimes::Make(schedule.timing, schedule.created, schedule.uid).status());
  RETURN_IF_ERROR(ReadTemplate(spec, schedule));
  return objects::CheckRun(ExampleRun(schedule));
}

absl::Status ReadScheduleSpec(const Json& spec, ProfileSchedule& schedule) {
  try {
    return ReadScheduleFields(spec, schedule);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(StrCat("a field has the wrong type: ", error.what()));
  }
}

void ReadScheduleStatus(const Json& object, ScheduleStatus& status) {
  status.observed_generation = object.value("observedGeneration", std::int64_t{0});
  status.conditions = kube::ReadConditions(object);
  status.timing = object.value("observedTiming", "");
  status.decided_until = kube::ReadTime(object, "decidedUntil");
  status.last_schedule = kube::ReadTime(object, "lastScheduleTime");
  status.last_success = kube::ReadTime(object, "lastSuccessTime");
  status.next_schedule = kube::ReadTime(object, "nextScheduleTime");
  status.last_run = object.value("lastRun", "");
  for (const Json& entry : object.value("active", Json::array())) {
    status.active.push_back(
        {entry.value("name", ""), kube::ReadTime(entry, "scheduledTime").value_or(WallTime{})});
  }
  const Json runs = object.value("runs", Json::object());
  status.started = runs.value("started", std::int64_t{0});
  status.succeeded = runs.value("succeeded", std::int64_t{0});
  status.failed = runs.value("failed", std::int64_t{0});
  status.cancelled = runs.value("cancelled", std::int64_t{0});
  status.skipped = runs.value("skipped", std::int64_t{0});
  if (object.contains("lastSkip")) {
    const Json& skip = object["lastSkip"];
    status.last_skip = SkippedRun{kube::ReadTime(skip, "time").value_or(WallTime{}),
                                  skip.value("reason", ""), skip.value("message", "")};
  }
}

}  // namespace

std::string RunNameOf(std::string_view schedule, WallTime time) {
  return StrCat(schedule, "-",
                absl::FormatTime("%Y%m%d-%H%M%S", absl::FromUnixNanos(ToUnixNanos(time)),
                                 absl::UTCTimeZone()));
}

std::string ScheduleOfRun(std::string_view run) {
  run = kube::UsualRunName(run);
  if (run.size() < kStampShape.size() + 2) return "";
  const std::string_view stamp = run.substr(run.size() - kStampShape.size());
  for (std::size_t i = 0; i < stamp.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(stamp[i])) != 0;
    if (kStampShape[i] == 'd' ? !digit : stamp[i] != kStampShape[i]) return "";
  }
  run.remove_suffix(kStampShape.size());
  return run.back() == '-' ? std::string(run.substr(0, run.size() - 1)) : "";
}

std::optional<WallTime> TimeOfRun(std::string_view run) {
  const std::string schedule = ScheduleOfRun(run);
  if (schedule.empty()) return std::nullopt;
  absl::Time time;
  std::string error;
  const std::string_view stamp = kube::UsualRunName(run).substr(schedule.size() + 1);
  if (!absl::ParseTime("%E4Y%m%d-%H%M%S", ToAbsl(stamp), absl::UTCTimeZone(), &time, &error))
    return std::nullopt;
  return FromUnixNanos(absl::ToUnixNanos(time));
}

absl::StatusOr<ProfileSchedule> ParseSchedule(const Json& object) {
  try {
    ProfileSchedule schedule;
    objects::ReadCreator(object, schedule);
    ReadScheduleStatus(object.value("status", Json::object()), schedule.status);
    const absl::Status spec = ReadScheduleSpec(object.value("spec", Json::object()), schedule);
    if (!spec.ok()) schedule.invalid = StrCat("spec.", MessageOf(spec));
    if (std::string why = objects::WhyNameTooLong(schedule); !why.empty())
      schedule.invalid = std::move(why);
    return schedule;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(StrCat("a field has the wrong type: ", error.what()));
  }
}

Json ScheduleStatusToJson(const ProfileSchedule& schedule, const ScheduleStatus& status) {
  const std::int64_t ended = status.succeeded + status.failed + status.cancelled;
  Json json = {{"observedGeneration", schedule.generation},
               {"conditions", kube::ConditionsToJson(status.conditions)},
               {"observedTiming", status.timing},
               {"runs",
                {{"started", status.started},
                 {"succeeded", status.succeeded},
                 {"failed", status.failed},
                 {"cancelled", status.cancelled},
                 {"skipped", status.skipped},
                 {"summary", StrCat(status.succeeded, "/", ended)}}},
               {"activeRuns", status.active.size()}};
  const auto set_time = [&json](const char* field, const std::optional<WallTime>& time) {
    if (time) json[field] = FormatRfc3339(*time);
  };
  set_time("decidedUntil", status.decided_until);
  set_time("lastScheduleTime", status.last_schedule);
  set_time("lastSuccessTime", status.last_success);
  set_time("nextScheduleTime", status.next_schedule);
  if (!status.last_run.empty()) json["lastRun"] = status.last_run;
  for (const ActiveRun& run : status.active)
    json["active"].push_back({{"name", run.name}, {"scheduledTime", FormatRfc3339(run.time)}});
  if (status.last_skip) {
    json["lastSkip"] = {{"time", FormatRfc3339(status.last_skip->time)},
                        {"reason", status.last_skip->reason},
                        {"message", status.last_skip->message}};
  }
  return objects::CreatorStatus(schedule, std::move(json));
}

Json RunToJson(const ProfileSchedule& schedule, const DueRun& run) {
  Json object = objects::RunOf(schedule, run.name);
  object["metadata"]["labels"][kube::kScheduleLabel] = schedule.name;
  object["metadata"]["annotations"][kube::kScheduledTimeAnnotation] = FormatRfc3339(run.time);
  if (schedule.rotates) object["spec"]["target"]["workers"]["turn"] = run.rotation;
  return object;
}

Json ExampleRun(const ProfileSchedule& schedule) {
  return RunToJson(schedule, DueRun{.time = schedule.created, .name = "run"});
}

}  // namespace strobe::schedule
