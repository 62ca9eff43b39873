#include "operator/objects/schedule_json.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "operator/core/label_selector.h"
#include "operator/core/names.h"
#include "operator/core/request.h"
#include "operator/objects/condition_json.h"
#include "operator/objects/dump.h"
#include "operator/objects/json_fields.h"
#include "operator/objects/json_members.h"
#include "operator/objects/request_json.h"
#include "operator/objects/requester_json.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kKeptByDefault = 3, kMaxKept = 1000;
constexpr char kScheduleKind[] = "ProfileSchedule";
// Stands for the default that each run gets from a policy.
constexpr char kSomeLogdir[] = "/default";

absl::Status CheckLabels(const Json& metadata) {
  for (const char* field : {"labels", "annotations"}) {
    const Json entries = metadata.value(field, Json::object());
    for (const auto& [key, value] : entries.items()) {
      absl::Status good = CheckLabelKey(key);
      if (good.ok() && std::string_view(field) == "labels")
        good = CheckLabelValue(value.get<std::string>());
      if (!good.ok()) {
        return absl::InvalidArgumentError(
            StrCat("template.metadata.", field, ": ", key, ": ", MessageOf(good)));
      }
    }
  }
  return absl::OkStatus();
}

// The metadata and spec of runs, with the schedule's own wishes.
absl::Status ReadTemplate(const Json& spec, ProfileSchedule& schedule) {
  const Json given = spec.value("template", Json::object());
  const Json metadata = given.value("metadata", Json::object());
  RETURN_IF_ERROR(CheckLabels(metadata));
  Json run = {{"metadata", Json::object()}, {"spec", given.value("spec", Json::object())}};
  for (const char* field : {"labels", "annotations"})
    run["metadata"][field] = metadata.value(field, Json::object());
  if (spec.contains("sample")) {
    Json& workers = run["spec"]["target"]["workers"];
    if (workers.contains("count") || workers.contains("ranks")) {
      return absl::InvalidArgumentError(
          "sample chooses the workers: leave template.spec.target.workers.count and ranks out");
    }
    workers["policy"] = "Sample";
    workers["count"] = spec["sample"].at("workers");
    schedule.rotates = spec["sample"].value("rotate", true);
  }
  schedule.run_json = Dump(run);
  return absl::OkStatus();
}

// What a ProfileRequest like its runs would be refused for.
absl::Status CheckRun(const ProfileSchedule& schedule) {
  Json run = RunToJson(schedule, DueRun{.time = schedule.created, .name = "run"});
  if (!run["spec"].contains("logdir")) run["spec"]["logdir"] = kSomeLogdir;
  ASSIGN_OR_RETURN(const ProfileRequest request, ParseRequest(run));
  if (request.invalid.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("template.spec.", request.invalid));
}

absl::Status ReadScheduleFields(const Json& spec, ProfileSchedule& schedule) {
  schedule.timing.cron = spec.value("schedule", "");
  schedule.timing.time_zone = spec.value("timeZone", "");
  RETURN_IF_ERROR(ReadDuration(spec, "interval", schedule.timing.interval));
  RETURN_IF_ERROR(ReadDuration(spec, "jitter", schedule.timing.jitter));
  RETURN_IF_ERROR(ReadDuration(spec, "startingDeadline", schedule.starting_deadline));
  const std::string policy = spec.value("concurrencyPolicy", "Forbid");
  schedule.concurrency = policy == "Allow"     ? ConcurrencyPolicy::kAllow
                         : policy == "Replace" ? ConcurrencyPolicy::kReplace
                                               : ConcurrencyPolicy::kForbid;
  schedule.suspend = spec.value("suspend", false);
  schedule.keep_succeeded =
      std::min(spec.value("successfulRunsHistoryLimit", kKeptByDefault), kMaxKept);
  schedule.keep_failed = std::min(spec.value("failedRunsHistoryLimit", kKeptByDefault), kMaxKept);
  RETURN_IF_ERROR(ScheduleTimes::Make(schedule.timing, schedule.created, schedule.uid).status());
  RETURN_IF_ERROR(ReadTemplate(spec, schedule));
  return CheckRun(schedule);
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
  status.conditions = ReadConditions(object);
  status.timing = object.value("observedTiming", "");
  status.decided_until = ReadTime(object, "decidedUntil");
  status.last_schedule = ReadTime(object, "lastScheduleTime");
  status.last_success = ReadTime(object, "lastSuccessTime");
  status.next_schedule = ReadTime(object, "nextScheduleTime");
  status.last_run = object.value("lastRun", "");
  for (const Json& entry : object.value("active", Json::array())) {
    status.active.push_back(
        {entry.value("name", ""), ReadTime(entry, "scheduledTime").value_or(WallTime{})});
  }
  const Json runs = object.value("runs", Json::object());
  status.started = runs.value("started", std::int64_t{0});
  status.succeeded = runs.value("succeeded", std::int64_t{0});
  status.failed = runs.value("failed", std::int64_t{0});
  status.cancelled = runs.value("cancelled", std::int64_t{0});
  status.skipped = runs.value("skipped", std::int64_t{0});
  if (object.contains("lastSkip")) {
    const Json& skip = object["lastSkip"];
    status.last_skip = SkippedRun{ReadTime(skip, "time").value_or(WallTime{}),
                                  skip.value("reason", ""), skip.value("message", "")};
  }
}

}  // namespace

std::string SchedulesPath(const std::string& ns) {
  return StrCat("/apis/strobe.dev/v1alpha1/", ns.empty() ? "" : StrCat("namespaces/", ns, "/"),
                "profileschedules");
}

std::string SchedulePath(const std::string& ns, const std::string& name) {
  return StrCat(SchedulesPath(ns), "/", name);
}

absl::StatusOr<ProfileSchedule> ParseSchedule(const Json& object) {
  try {
    ProfileSchedule schedule;
    const Json& metadata = object.at("metadata");
    schedule.ns = metadata.value("namespace", "");
    schedule.name = metadata.value("name", "");
    schedule.uid = metadata.value("uid", "");
    schedule.resource_version = metadata.value("resourceVersion", "");
    schedule.generation = metadata.value("generation", std::int64_t{0});
    schedule.created = ReadTime(metadata, "creationTimestamp").value_or(WallTime{});
    schedule.deleting = metadata.contains("deletionTimestamp");
    if (std::optional<StampedRequester> stamped = ScheduleRequesterOf(object, schedule.ns)) {
      schedule.requester = std::move(stamped->requester);
      schedule.admission = std::move(stamped->admission);
      schedule.seal = std::move(stamped->seal);
      schedule.sealed_uid = std::move(stamped->uid);
    }
    ReadScheduleStatus(object.value("status", Json::object()), schedule.status);
    const absl::Status spec = ReadScheduleSpec(object.value("spec", Json::object()), schedule);
    if (!spec.ok()) schedule.invalid = StrCat("spec.", MessageOf(spec));
    if (schedule.name.size() > kMaxScheduleName) {
      schedule.invalid = StrCat("metadata.name: a schedule's name has at most ", kMaxScheduleName,
                                " characters, because it is a label of its runs");
    }
    return schedule;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(StrCat("a field has the wrong type: ", error.what()));
  }
}

Json ScheduleStatusToJson(const ProfileSchedule& schedule, const ScheduleStatus& status) {
  const std::int64_t ended = status.succeeded + status.failed + status.cancelled;
  Json json = {{"observedGeneration", schedule.generation},
               {"conditions", ConditionsToJson(status.conditions)},
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
  // The UID and the version prevent writing about an object that is not the one that was judged.
  return {{"apiVersion", kApiVersion},
          {"kind", kScheduleKind},
          {"metadata",
           {{"name", schedule.name},
            {"namespace", schedule.ns},
            {"uid", schedule.uid},
            {"resourceVersion", schedule.resource_version}}},
          {"status", std::move(json)}};
}

Json RunToJson(const ProfileSchedule& schedule, const DueRun& run) {
  Json object = Json::parse(schedule.run_json);
  object["apiVersion"] = kApiVersion;
  object["kind"] = "ProfileRequest";
  Json& metadata = object["metadata"];
  metadata["name"] = run.name;
  metadata["namespace"] = schedule.ns;
  metadata["labels"][kScheduleLabel] = schedule.name;
  metadata["annotations"][kScheduledTimeAnnotation] = FormatRfc3339(run.time);
  metadata["ownerReferences"] = {{{"apiVersion", kApiVersion},
                                  {"kind", kScheduleKind},
                                  {"name", schedule.name},
                                  {"uid", schedule.uid},
                                  {"controller", true}}};
  if (schedule.rotates) object["spec"]["target"]["workers"]["turn"] = run.turn;
  return object;
}

bool IsRunOf(const Json& request, const std::string& schedule_uid) {
  const Json& owners = Member(Member(request, "metadata"), "ownerReferences");
  return !schedule_uid.empty() && FindBy(owners, "uid", schedule_uid).has_value();
}

ScheduleRun ParseRun(const Json& request) {
  const Json& metadata = Member(request, "metadata");
  const Json& status = Member(request, "status");
  ScheduleRun run;
  run.name = TextOf(metadata, "name");
  run.uid = TextOf(metadata, "uid");
  run.deleting = !Member(metadata, "deletionTimestamp").is_null();
  run.cancelling = Member(Member(request, "spec"), "cancel") == true;
  const Json& conditions = Member(status, "conditions");
  const std::optional<std::size_t> ended = FindBy(conditions, "type", "Succeeded");
  const std::string value = ended ? TextOf(conditions[*ended], "status") : "Unknown";
  if (value == "True")
    run.state = RunState::kSucceeded;
  else if (value == "False")
    run.state = TextOf(conditions[*ended], "reason") == "Cancelled" ? RunState::kCancelled
                                                                    : RunState::kFailed;
  if (status.is_object()) run.completion = ReadTime(status, "completionTime");
  return run;
}

}  // namespace strobe::kube
