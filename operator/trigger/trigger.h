// The values of a ProfileTrigger, without JSON. helm/strobe/crds/profiletriggers.yaml describes the
// fields and their ranges.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "operator/base/condition.h"
#include "operator/base/job_kinds.h"
#include "operator/base/label_selector.h"
#include "operator/base/run_creator.h"
#include "operator/job/target_spec.h"
#include "operator/objects/run_template.h"
#include "operator/policy/capture_budget.h"
#include "operator/trigger/sign.h"

namespace strobe::trigger {

// Which alerts start a capture, and which of their labels tell what is captured.
struct TriggerAlerts {
  std::map<std::string, std::string> match_labels{};
  std::string namespace_label = "namespace";
  std::string pod_label = "pod";  // Empty = not used.
  std::string job_label{};        // Empty = not used. It counts before pod_label.
  std::string job_kind = "Job";   // The kind of the job that job_label names.
};

// What captures may cost, for each job.
struct Budget {
  Nanos cool_down = std::chrono::minutes(10);  // Between the starts of two captures.
  int captures_per_day = 10;
  std::optional<double> duty_cycle{};  // Recorded part of the last 24 hours, 0 to 1; none = any.
  std::optional<std::uint64_t> bytes_per_day{};
};

// Why an alert started nothing, other than by a budget. The names are part of the status.
inline constexpr char kAlreadyCaptured[] = "AlreadyCaptured", kRunActive[] = "StillActive",
                      kTriggerSuspended[] = "Suspended", kTriggerInvalid[] = "InvalidSpec",
                      kAlertTooOld[] = "TooOld", kNoTargetLabel[] = "NoTarget",
                      kPodNotFound[] = "PodNotFound";

// A reason of the last alert that started nothing.
struct SkippedAlert {
  WallTime time{};  // When that was decided, in whole seconds.
  std::string reason{}, message{};
  std::string job{};  // "kind/name"; empty if it is not known.

  bool operator==(const SkippedAlert&) const = default;
};

struct LastCapture {
  WallTime time{};
  std::string run{}, job{}, alert{};  // The alert's name, or the sign's.
  std::string sign{};                 // What was seen; empty for an alert.

  bool operator==(const LastCapture&) const = default;
};

// The verdict of the last run that found a job standing still.
struct LastStall {
  WallTime time{};  // When the run was started.
  std::string run{}, job{}, kind{}, confidence{};
  std::string verdict{};
  std::string repeated{};  // What the last stalls of the job have in common; empty = nothing.

  bool operator==(const LastStall&) const = default;
};

struct TriggerStatus {
  std::int64_t observed_generation = 0;
  std::vector<kube::Condition> conditions{};
  std::optional<WallTime> last_alert{};  // When an alert that matches came last.
  std::optional<LastCapture> last_capture{};
  std::optional<LastStall> last_stall{};
  std::size_t active = 0;
  std::int64_t taken = 0;                         // Alerts that started a capture.
  std::map<std::string, std::int64_t> skipped{};  // Alerts that started nothing, by reason.
  std::optional<SkippedAlert> last_skip{};
  std::vector<policy::JobUse> budgets{};  // The jobs that were captured last.

  bool operator==(const TriggerStatus&) const = default;
};

// Which workers a template's target has, other than by target_job.
struct TriggerTarget {
  std::vector<std::string> pods{};
  std::optional<kube::LabelSelector> selector{};
};

struct ProfileTrigger : kube::RunCreator {
  ProfileTrigger() : kube::RunCreator(kube::CreatorKind::kTrigger) {}

  TriggerAlerts alerts{};  // Without labels to match, alerts start nothing.
  TriggerSigns signs{};
  Budget budget{};
  bool has_target = false;   // The template has a target, which holds for every alert.
  std::string target_job{};  // The job of that target; see TargetText.
  TriggerTarget target{};
  Nanos duration{};      // How long a run records, with what it looks back.
  bool rotates = false;  // Each run samples other workers.
  TriggerStatus status{};
};

// A run of a trigger, from its ProfileRequest.
struct TriggerRun : kube::CreatedRun {
  std::string trigger_uid{}, trigger{};
  std::string alert{}, alert_name{}, sign{};  // From its annotations, as `job` is.
  // From its status, if it read evidence.
  std::string stall_class{}, stall_confidence{}, stall_verdict{};
  bool stalled = false;  // The job stood still, and did not go on by itself.
  struct Culprit {
    int rank = -1;
    std::string pod{}, node{};
  };
  std::vector<Culprit> culprits{};
};

// A run that an alert starts.
struct TriggeredRun {
  std::string name{};
  std::int64_t rotation = 0;  // Which turn of the rotation.
  std::string job{}, alert{}, alert_name{};
  std::string sign{};                    // What was seen, if a sign starts it.
  std::optional<kube::JobRef> target{};  // None: the template's.
};

// "<trigger>-<hash>-<number>". It follows from the trigger, the job and the number of the run
// before, so that operators that decide at the same time create one run.
std::string TriggeredRunName(std::string_view trigger, std::string_view job, std::int64_t number);
// 0 if it is no such name.
std::int64_t NumberOfTriggeredRun(std::string_view run);

// If the spec cannot be carried out, `invalid` has the reason and names the field. InvalidArgument
// if not even the metadata can be parsed.
absl::StatusOr<ProfileTrigger> ParseTrigger(const nlohmann::json& object);

// The object to apply to /status. The API server refuses it if the trigger has changed since it was
// read.
nlohmann::json TriggerStatusToJson(const ProfileTrigger& trigger, const TriggerStatus& status);

// The ProfileRequest to create for a run. It has no requester yet, and no logdir if the template
// has none. `trigger` is not invalid.
nlohmann::json RunToJson(const ProfileTrigger& trigger, const TriggeredRun& run);
// Like RunToJson, for a run that no alert has started yet.
nlohmann::json ExampleRun(const ProfileTrigger& trigger);

// The run that a ProfileRequest is; `trigger` is empty if no trigger has started it.
TriggerRun ParseTriggeredRun(const nlohmann::json& request);

}  // namespace strobe::trigger
