// Which alerts concern a ProfileTrigger, and what they have captured. Pure.
#pragma once
#include <optional>
#include <string>

#include "operator/base/job_kinds.h"
#include "operator/job/pod.h"
#include "operator/trigger/alert.h"
#include "operator/trigger/trigger.h"

namespace strobe {

// Whether the alert has the trigger's namespace and all labels that it asks for. Whether the alert
// fires is not looked at.
bool MatchesAlert(const ProfileTrigger& trigger, const Alert& alert);

// "<fingerprint>@<start>": one firing of an alert.
std::string AlertId(const Alert& alert);
// The label alertname, cut to a bounded length.
std::string NameOfAlert(const Alert& alert);

// What an alert has captured. At most one of `job` and `pod` is set; neither: the template's
// target, or `missing` tells which labels the alert would need.
struct AlertTarget {
  std::optional<JobRef> job{};
  std::string pod{};  // The job that this pod belongs to.
  std::string missing{};
};
AlertTarget TargetOfAlert(const ProfileTrigger& trigger, const Alert& alert);

// The job that a pod belongs to, by its labels and owners; the pod itself if there is none that
// Strobe knows.
JobRef JobOfPod(const PodInfo& pod);

}  // namespace strobe
