#include "operator/trigger/trigger_cluster.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "operator/base/names.h"
#include "operator/job/pod.h"
#include "operator/objects/request.h"
#include "operator/trigger/trigger.h"

namespace strobe::trigger {
namespace {

std::string TriggerPath(const std::string& ns, const std::string& name) {
  return objects::CreatorPath(kube::CreatorKind::kTrigger, ns, name);
}

}  // namespace

absl::StatusOr<ProfileTrigger> KubeTriggerCluster::ReadTrigger(const std::string& ns,
                                                               const std::string& name,
                                                               Nanos within) {
  ASSIGN_OR_RETURN(const kube::Json object, client().Get(TriggerPath(ns, name), within));
  ASSIGN_OR_RETURN(const ProfileTrigger trigger, ParseTrigger(object));
  ASSIGN_OR_RETURN(std::optional<kube::Json> sealed, starter_.SealAgain(trigger, object));
  if (!sealed) return trigger;
  absl::StatusOr<ProfileTrigger> again = ParseTrigger(*sealed);
  triggers_.Remember(trigger.resource_version, *std::move(sealed));
  return again;
}

absl::StatusOr<std::vector<TriggerRun>> KubeTriggerCluster::ReadRuns(const std::string& ns,
                                                                     const std::string& job,
                                                                     Nanos within) {
  const std::string selector = StrCat(kube::kTriggeredJobLabel, "=", job::JobHash(job));
  std::vector<TriggerRun> runs;
  RETURN_IF_ERROR(client()
                      .GetItems(
                          StrCat(objects::RequestsPath(ns), "?labelSelector=", UrlEncode(selector)),
                          [&](const kube::Json& item) {
                            TriggerRun run = ParseTriggeredRun(item);
                            run.trigger_uid = starter_.CreatorOf(item, run.trigger_uid);
                            if (!run.trigger_uid.empty()) runs.push_back(std::move(run));
                          },
                          within)
                      .status());
  return runs;
}

absl::StatusOr<job::PodInfo> KubeTriggerCluster::ReadPod(const std::string& ns,
                                                         const std::string& name, Nanos within) {
  // The name comes from an alert.
  ASSIGN_OR_RETURN(
      const kube::Json pod,
      client().Get(StrCat("/api/v1/namespaces/", ns, "/pods/", UrlEncode(name)), within));
  return job::ParsePod(pod);
}

absl::StatusOr<std::optional<kube::RunRefusal>> KubeTriggerCluster::StartRun(
    const ProfileTrigger& trigger, TriggeredRun& run, Nanos within) {
  kube::Json object = RunToJson(trigger, run);
  absl::StatusOr<std::optional<kube::RunRefusal>> started = starter_.Start(trigger, object, within);
  run.name = object["metadata"]["name"];
  return started;
}

absl::StatusOr<ProfileTrigger> KubeTriggerCluster::GetTrigger(const std::string& key) {
  const kube::Object object = triggers_.Get(key);
  if (object == nullptr) return absl::NotFoundError(StrCat("no ProfileTrigger ", key));
  ASSIGN_OR_RETURN(ProfileTrigger trigger, ParseTrigger(*object));
  trigger.not_admitted = starter_.WhyNotAdmitted(trigger);
  return trigger;
}

std::vector<TriggerRun> KubeTriggerCluster::RunsOf(const ProfileTrigger& trigger) {
  std::vector<TriggerRun> runs;
  for (const kube::Object& run : starter_.RunsOf(trigger)) runs.push_back(ParseTriggeredRun(*run));
  return runs;
}

absl::Status KubeTriggerCluster::DeleteRun(const ProfileTrigger& trigger,
                                           const kube::CreatedRun& run) {
  return starter_.Delete(trigger, run);
}

absl::Status KubeTriggerCluster::WriteStatus(const ProfileTrigger& trigger,
                                             const TriggerStatus& status) {
  ASSIGN_OR_RETURN(kube::Json written,
                   client().Apply(TriggerPath(trigger.ns, trigger.name) + "/status",
                                  TriggerStatusToJson(trigger, status)));
  triggers_.Remember(trigger.resource_version, std::move(written));
  return absl::OkStatus();
}

std::optional<Nanos> KubeTriggerCluster::KeepSealed(const ProfileTrigger& trigger) {
  return starter_.KeepSealed(trigger, triggers_);
}

void KubeTriggerCluster::RecordEvent(const ProfileTrigger& trigger, bool warning,
                                     const std::string& reason, const std::string& action,
                                     const std::string& note) {
  starter_.RecordEvent(trigger, warning, reason, action, note);
}

}  // namespace strobe::trigger
