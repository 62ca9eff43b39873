// Which alerts concern a ProfileTrigger and what they have captured, whether an alert may start a
// capture now, and the status that the trigger should show. All of it follows from the trigger, the
// alert and the runs that exist, so that a restarted operator, or another one, decides the same.
// Pure.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/job_kinds.h"
#include "operator/job/pod.h"
#include "operator/policy/retention.h"
#include "operator/trigger/alert.h"
#include "operator/trigger/trigger.h"

namespace strobe::trigger {

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
  std::optional<kube::JobRef> job{};
  std::string pod{};  // The job that this pod belongs to.
  std::string missing{};
};
AlertTarget TargetOfAlert(const ProfileTrigger& trigger, const Alert& alert);

// The job that a pod belongs to, by its labels and owners; the pod itself if there is none that
// Strobe knows.
kube::JobRef JobOfPod(const job::PodInfo& pod);

// What the trigger's runs of the job have used in the last 24 hours. `runs` may have others too.
policy::JobUse UseOf(const ProfileTrigger& trigger, const std::string& job,
                     const std::vector<TriggerRun>& runs, WallTime now);

struct Verdict {
  std::optional<kube::RunRefusal> refusal{};  // None: the run is to be created.
  // Until then every alert of the job is refused for the same reason, and nothing needs to be read.
  std::optional<WallTime> refused_until{};
  std::int64_t number = 0;  // The number of the run to create.
};

// Why no alert starts a capture by this trigger, whatever its job.
std::optional<kube::RunRefusal> WhyTriggerRests(const ProfileTrigger& trigger);
// Why this alert starts nothing, whatever its job and the budget.
std::optional<kube::RunRefusal> WhyAlertIsPast(const Alert& alert, WallTime now);

// `runs` are all runs of triggers that the namespace has of the job.
Verdict DecideCapture(const ProfileTrigger& trigger, const Alert& alert, const std::string& job,
                      const std::vector<TriggerRun>& runs, WallTime now);

// What came of alerts since the status was written last, other than captures, which are counted by
// their runs.
struct Notes {
  std::map<std::string, std::int64_t> skipped{};  // By reason.
  std::optional<WallTime> last_alert{};
  std::optional<SkippedAlert> last_skip{};

  bool empty() const { return !last_alert; }
  // Adds what was noted earlier.
  void AddEarlier(const Notes& earlier);
};

struct Decision {
  TriggerStatus status{};
  std::vector<kube::CreatedRun> remove{};  // See retention.h.
  // When to look again; none = when the trigger or one of its runs changes.
  std::optional<Nanos> look_again{};
};

// `runs` are the trigger's runs that exist. `bounds`: none if they are not known.
Decision DecideTrigger(const ProfileTrigger& trigger, const std::vector<TriggerRun>& runs,
                       const Notes& notes, const std::optional<policy::SeriesBounds>& bounds,
                       WallTime now);

// The verdict of the newest run that found its job standing still, with what it has in common with
// the stalls of the job before it. `runs` are sorted, the newest first. `former` stays if there is
// none, because runs are deleted and the verdict on a job that was restarted is still of use; but
// not if its own run has withdrawn it.
std::optional<LastStall> LastStallOf(const std::vector<TriggerRun>& runs,
                                     const std::optional<LastStall>& former);

// "rank 9 on node-3 in the last 3 stalls"; empty unless a rank or node is named twice in a row.
// `stalls` are of one job, the newest first.
std::string RepeatedCulprit(const std::vector<const TriggerRun*>& stalls);

}  // namespace strobe::trigger
