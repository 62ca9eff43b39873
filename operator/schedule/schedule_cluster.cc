#include "operator/schedule/schedule_cluster.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/json_fields.h"
#include "operator/objects/request.h"
#include "operator/schedule/schedule.h"

namespace strobe::schedule {
namespace {

// Limits the start of a run, with all that is asked for it.
constexpr Nanos kStartLimit = std::chrono::seconds(30);

}  // namespace

absl::StatusOr<ProfileSchedule> KubeScheduleCluster::GetSchedule(const std::string& key) {
  const kube::Object object = schedules_.Get(key);
  if (object == nullptr) return absl::NotFoundError(StrCat("no ProfileSchedule ", key));
  ASSIGN_OR_RETURN(ProfileSchedule schedule, ParseSchedule(*object));
  schedule.not_admitted = starter_.WhyNotAdmitted(schedule);
  return schedule;
}

absl::StatusOr<std::vector<kube::CreatedRun>> KubeScheduleCluster::RunsOf(
    const ProfileSchedule& schedule) {
  std::vector<kube::CreatedRun> runs;
  for (const kube::Object& run : starter_.RunsOf(schedule)) runs.push_back(objects::ParseRun(*run));
  for (const ActiveRun& active : schedule.status.active) {
    const auto cached = std::find_if(runs.begin(), runs.end(), [&](const kube::CreatedRun& run) {
      return run.name == active.name;
    });
    if (cached != runs.end()) continue;
    // The cache may not have it yet.
    const absl::StatusOr<kube::Json> request =
        client().Get(objects::RequestPath(schedule.ns, active.name));
    if (absl::IsNotFound(request.status())) continue;
    RETURN_IF_ERROR(request.status());
    if (starter_.IsRunOf(schedule, *request)) runs.push_back(objects::ParseRun(*request));
  }
  return runs;
}

absl::StatusOr<std::optional<kube::RunRefusal>> KubeScheduleCluster::StartRun(
    const ProfileSchedule& schedule, DueRun& due) {
  RETURN_IF_ERROR(CheckIsCurrent(schedule));
  kube::Json run = RunToJson(schedule, due);
  absl::StatusOr<std::optional<kube::RunRefusal>> started =
      starter_.Start(schedule, run, kStartLimit);
  due.name = run["metadata"]["name"];
  return started;
}

// A new leader's cache may be older than what its predecessor wrote last. A run that was created
// and removed since must not be created again.
absl::Status KubeScheduleCluster::CheckIsCurrent(const ProfileSchedule& schedule) {
  ASSIGN_OR_RETURN(
      const kube::Json object,
      client().Get(objects::CreatorPath(kube::CreatorKind::kSchedule, schedule.ns, schedule.name)));
  if (kube::TextOf(kube::Member(object, "metadata"), "resourceVersion") !=
      schedule.resource_version)
    return absl::AbortedError("the schedule has changed");
  ASSIGN_OR_RETURN(std::optional<kube::Json> sealed, starter_.SealAgain(schedule, object));
  if (!sealed) return absl::OkStatus();
  schedules_.Remember(schedule.resource_version, *std::move(sealed));
  return absl::AbortedError("the schedule was sealed again");
}

absl::Status KubeScheduleCluster::CancelRun(const ProfileSchedule& schedule,
                                            const kube::CreatedRun& run) {
  const absl::Status status =
      client()
          .MergePatch(objects::RequestPath(schedule.ns, run.name),
                      {{"metadata", {{"uid", run.uid}}}, {"spec", {{"cancel", true}}}})
          .status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status KubeScheduleCluster::DeleteRun(const ProfileSchedule& schedule,
                                            const kube::CreatedRun& run) {
  return starter_.Delete(schedule, run);
}

absl::Status KubeScheduleCluster::WriteStatus(const ProfileSchedule& schedule,
                                              const ScheduleStatus& status) {
  ASSIGN_OR_RETURN(kube::Json written,
                   client().Apply(objects::CreatorPath(kube::CreatorKind::kSchedule, schedule.ns,
                                                       schedule.name) +
                                      "/status",
                                  ScheduleStatusToJson(schedule, status)));
  schedules_.Remember(schedule.resource_version, std::move(written));
  return absl::OkStatus();
}

std::optional<Nanos> KubeScheduleCluster::KeepSealed(const ProfileSchedule& schedule) {
  return starter_.KeepSealed(schedule, schedules_);
}

void KubeScheduleCluster::RecordEvent(const ProfileSchedule& schedule, bool warning,
                                      const std::string& reason, const std::string& action,
                                      const std::string& note) {
  starter_.RecordEvent(schedule, warning, reason, action, note);
}

}  // namespace strobe::schedule
