#include "operator/kube/schedule_cluster.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/core/names.h"
#include "operator/objects/json_members.h"
#include "operator/objects/request_json.h"
#include "operator/objects/requester_json.h"
#include "operator/objects/schedule_json.h"

namespace strobe::kube {
namespace {

constexpr Nanos kJudgeLimit = std::chrono::seconds(20);

}  // namespace

absl::StatusOr<ProfileSchedule> KubeScheduleCluster::GetSchedule(const std::string& key) {
  const Object object = schedules_.Get(key);
  if (object == nullptr) return absl::NotFoundError(StrCat("no ProfileSchedule ", key));
  return ParseSchedule(*object);
}

absl::StatusOr<std::vector<ScheduleRun>> KubeScheduleCluster::RunsOf(
    const ProfileSchedule& schedule) {
  std::vector<ScheduleRun> runs;
  for (const Object& request : deps_.requests.InNamespace(schedule.ns)) {
    if (IsRunOf(*request, schedule.uid)) runs.push_back(ParseRun(*request));
  }
  for (const ActiveRun& active : schedule.status.active) {
    const auto cached = std::find_if(
        runs.begin(), runs.end(), [&](const ScheduleRun& run) { return run.name == active.name; });
    if (cached != runs.end()) continue;
    // The cache may not have it yet.
    const absl::StatusOr<Json> request = deps_.client.Get(RequestPath(schedule.ns, active.name));
    if (absl::IsNotFound(request.status())) continue;
    RETURN_IF_ERROR(request.status());
    if (IsRunOf(*request, schedule.uid)) runs.push_back(ParseRun(*request));
  }
  return runs;
}

KubeScheduleCluster::MaybeRefusal KubeScheduleCluster::StartRun(const ProfileSchedule& schedule,
                                                                const DueRun& due) {
  RETURN_IF_ERROR(CheckIsCurrent(schedule));
  Json run = RunToJson(schedule, due);
  if (deps_.gatekeeper != nullptr) {
    ASSIGN_OR_RETURN(std::optional<RunRefusal> refusal, AdmitRun(schedule, run));
    if (refusal) return refusal;
  }
  return CreateRun(schedule, run);
}

// A new leader's cache may be older than what its predecessor wrote last. A run that was created
// and removed since must not be created again.
absl::Status KubeScheduleCluster::CheckIsCurrent(const ProfileSchedule& schedule) {
  ASSIGN_OR_RETURN(const Json object, deps_.client.Get(SchedulePath(schedule.ns, schedule.name)));
  if (TextOf(Member(object, "metadata"), "resourceVersion") == schedule.resource_version)
    return deps_.gatekeeper == nullptr ? absl::OkStatus() : SealAgain(schedule, object);
  return absl::AbortedError("the schedule has changed");
}

// Keys of authorities that were replaced are given up, and schedules live longer than authorities.
absl::Status KubeScheduleCluster::SealAgain(const ProfileSchedule& schedule, const Json& object) {
  const std::vector<std::string> keys = deps_.seal_keys();
  if (keys.empty()) return absl::UnavailableError("there are no keys for seals yet");
  if (SealHolds({keys.data(), 1}, schedule.admission, schedule.seal) ||
      !SealHolds(keys, schedule.admission, schedule.seal))
    return absl::OkStatus();
  const std::string stamp =
      TextOf(Member(Member(object, "metadata"), "annotations"), kRequesterAnnotation);
  ASSIGN_OR_RETURN(
      Json patched,
      deps_.client.MergePatch(
          SchedulePath(schedule.ns, schedule.name),
          {{"metadata",
            {{"resourceVersion", schedule.resource_version},
             {"annotations",
              {{kRequesterAnnotation, Resealed(stamp, schedule.admission, keys.front())}}}}}}));
  schedules_.Remember(schedule.resource_version, std::move(patched));
  return absl::AbortedError("the schedule was sealed again");
}

// Judges the run as the webhooks judge a request, and completes it as they do: they leave out what
// the operator creates.
KubeScheduleCluster::MaybeRefusal KubeScheduleCluster::AdmitRun(const ProfileSchedule& schedule,
                                                                Json& run) {
  ASSIGN_OR_RETURN(std::string unknown, deps_.gatekeeper->WhyNotAdmitted(schedule));
  if (!unknown.empty() || !schedule.requester) return RunRefusal{"NotAdmitted", std::move(unknown)};
  if (Member(run["spec"], "logdir").is_null()) {
    absl::StatusOr<std::string> logdir = deps_.gatekeeper->LogdirFor(schedule.ns, kJudgeLimit);
    if (absl::IsNotFound(logdir.status()) || absl::IsFailedPrecondition(logdir.status()))
      return RunRefusal{"NoLogdir", MessageOf(logdir.status())};
    RETURN_IF_ERROR(logdir.status());
    run["spec"]["logdir"] = *std::move(logdir);
  }
  ASSIGN_OR_RETURN(const ProfileRequest request, ParseRequest(run));
  if (!request.invalid.empty()) return RunRefusal{"InvalidSpec", request.invalid};
  ASSIGN_OR_RETURN(PolicyVerdict verdict,
                   deps_.gatekeeper->Judge(request, *schedule.requester, {}, kJudgeLimit));
  if (verdict.kind == PolicyVerdict::Kind::kRefused)
    return RunRefusal{"NotAllowed", std::move(verdict.message)};
  const std::vector<std::string> keys = deps_.seal_keys();
  if (keys.empty()) return absl::UnavailableError("there are no keys for seals yet");
  run["metadata"]["annotations"][kRequesterAnnotation] =
      SealRequester(run, schedule.ns, *schedule.requester, deps_.clock.WallNow(), keys.front());
  return std::nullopt;
}

KubeScheduleCluster::MaybeRefusal KubeScheduleCluster::CreateRun(const ProfileSchedule& schedule,
                                                                 const Json& run) {
  const absl::Status created = deps_.client.Create(RequestsPath(schedule.ns), run).status();
  if (created.ok()) return std::nullopt;
  const std::string name = run["metadata"]["name"];
  if (absl::IsAlreadyExists(created)) {
    ASSIGN_OR_RETURN(const Json present, deps_.client.Get(RequestPath(schedule.ns, name)));
    if (IsRunOf(present, schedule.uid)) return std::nullopt;
    return RunRefusal{"NameTaken", StrCat("there is another ProfileRequest ", name)};
  }
  // No other try would do better: the schema, a quota or the operator's rights are against it.
  if (absl::IsInvalidArgument(created) || absl::IsPermissionDenied(created) ||
      absl::IsNotFound(created))
    return RunRefusal{"CreateFailed", MessageOf(created)};
  return created;
}

absl::Status KubeScheduleCluster::CancelRun(const ProfileSchedule& schedule,
                                            const ScheduleRun& run) {
  const absl::Status status =
      deps_.client
          .MergePatch(RequestPath(schedule.ns, run.name),
                      {{"metadata", {{"uid", run.uid}}}, {"spec", {{"cancel", true}}}})
          .status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status KubeScheduleCluster::DeleteRun(const ProfileSchedule& schedule,
                                            const ScheduleRun& run) {
  const absl::Status status = deps_.client.Delete(RequestPath(schedule.ns, run.name),
                                                  {{"preconditions", {{"uid", run.uid}}}});
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status KubeScheduleCluster::WriteStatus(const ProfileSchedule& schedule,
                                              const ScheduleStatus& status) {
  ASSIGN_OR_RETURN(Json written,
                   deps_.client.Apply(SchedulePath(schedule.ns, schedule.name) + "/status",
                                      ScheduleStatusToJson(schedule, status)));
  schedules_.Remember(schedule.resource_version, std::move(written));
  return absl::OkStatus();
}

void KubeScheduleCluster::RecordEvent(const ProfileSchedule& schedule, bool warning,
                                      const std::string& reason, const std::string& action,
                                      const std::string& note) {
  deps_.events.Record({{kApiVersion, "ProfileSchedule", schedule.ns, schedule.name, schedule.uid},
                       warning,
                       reason,
                       action,
                       note});
}

}  // namespace strobe::kube
