#include "operator/trigger/trigger_match.h"

#include <algorithm>

#include "common/base/strings.h"
#include "common/text/utf8.h"

namespace strobe {
namespace {

constexpr std::size_t kMaxShownName = 128;

// Empty if the alert has no such label.
std::string AlertLabel(const Alert& alert, const std::string& name) {
  const auto found = alert.labels.find(name);
  return name.empty() || found == alert.labels.end() ? "" : found->second;
}

bool IsOwnedBy(const PodInfo& pod, std::string_view kind) {
  return std::any_of(pod.owners.begin(), pod.owners.end(),
                     [&](const PodInfo::Owner& owner) { return owner.kind == kind; });
}

// If several kinds write the same label, the kind that owns the pod counts. An MPIJob's launcher is
// owned by a Job, which the MPIJob owns.
bool IsOfKind(const PodInfo& pod, const JobKind& kind) {
  if (kind.group == "kubeflow.org")
    return IsOwnedBy(pod, kind.kind) || (kind.kind == "MPIJob" && IsOwnedBy(pod, "Job"));
  return true;
}

std::optional<JobRef> JobOfLabel(const PodInfo& pod, const JobKind& kind) {
  if (kind.pods != JobKind::Pods::kLabelled) return std::nullopt;
  const auto label = pod.labels.find(std::string(kind.label));
  if (label == pod.labels.end() || label->second.empty() || !IsOfKind(pod, kind))
    return std::nullopt;
  JobRef job{"", std::string(kind.kind), label->second};
  const JobKind* meant = FindJobKind(job);
  if (meant != nullptr && meant->group != kind.group)
    job.api_version = StrCat(kind.group, "/", kind.versions);
  return job;
}

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
    target.job = JobRef{"", asked.job_kind, std::move(job)};
  } else if (std::string pod = AlertLabel(alert, asked.pod_label); !pod.empty()) {
    target.pod = std::move(pod);
  } else {
    const bool both = !asked.job_label.empty() && !asked.pod_label.empty();
    target.missing = StrCat(asked.job_label, both ? " or " : "", asked.pod_label);
    if (target.missing.empty()) target.missing = "(podLabel and jobLabel are empty)";
  }
  return target;
}

JobRef JobOfPod(const PodInfo& pod) {
  // Kinds that create batch Jobs are tried before batch Jobs themselves.
  for (const bool batch : {false, true}) {
    for (const JobKind& kind : AllJobKinds()) {
      if ((kind.group == "batch") != batch) continue;
      if (std::optional<JobRef> job = JobOfLabel(pod, kind)) return *std::move(job);
    }
  }
  for (const PodInfo::Owner& owner : pod.owners) {
    const JobKind* kind = FindJobKind({"", owner.kind, owner.name});
    if (kind != nullptr && kind->pods == JobKind::Pods::kOwned)
      return JobRef{"", owner.kind, owner.name};
  }
  return JobRef{"", "Pod", pod.name};
}

}  // namespace strobe
