// ProfilePolicy: which captures administrators allow. Pure. helm/strobe/crds/profilepolicies.yaml
// describes the fields and their ranges.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/spec.h"
#include "common/base/clock.h"
#include "operator/base/condition.h"
#include "operator/base/label_selector.h"
#include "operator/base/sidecar_user.h"
#include "operator/policy/automatic_limits.h"

namespace strobe::policy {

struct ProfilePolicy {
  std::string name{}, uid{}, resource_version{};
  std::int64_t generation = 0;
  kube::LabelSelector namespaces{};
  // Prefixes of logdirs; "{namespace}" is replaced by the request's namespace.
  std::vector<std::string> allowed_logdirs{};
  std::string default_logdir{};  // With the same placeholder; empty = none.
  std::optional<Nanos> max_duration{};
  std::optional<int> max_concurrent{};  // Captures under way at once in one namespace.
  std::optional<Nanos> min_interval{};  // From the end of one capture to the start of the next.
  // The largest maxBytesPerWorker that a request may set; it must set one.
  std::optional<std::uint64_t> max_bytes{};
  bool evidence = true;         // Requests may read the evidence of stalls.
  AutomaticLimits automatic{};  // For runs of schedules and triggers.
  // For sidecars that are injected into pods of the policy's namespaces.
  std::optional<kube::SidecarUser> sidecar_user{};
  bool flight_recorder_devices = false;  // Pods may ask that their GPUs are recorded at all times.
  std::string invalid{};  // Why the object cannot be used and allows nothing; empty when it can.
  std::vector<kube::Condition> conditions{};  // What its status says until now.
};

// The other captures of a namespace that count before the one that is judged.
struct EarlierCaptures {
  int active = 0;  // Under way, or about to begin.
  int ahead = 0;   // Waiting, and for longer.
};

// What policies take into account about a namespace.
struct NamespaceFacts {
  std::string name{};
  std::map<std::string, std::string> labels{};
  EarlierCaptures earlier{};
  std::optional<WallTime> last_end{};  // When its last capture ended; none = not known.
};

struct Verdict {
  // A smaller one is nearer to being allowed.
  enum class Kind { kAllowed, kWait, kUsedUp, kRefused };
  Kind kind = Kind::kAllowed;
  std::string message{};  // Names the policy and what it allows; empty when allowed.
  // kWait: after how long to judge again; none = when a capture of the namespace ends.
  std::optional<Nanos> wait{};
  // kAllowed: the longest time that the policy allows to record; none = it has no limit.
  std::optional<Nanos> max_duration{};
};

// Whether a capture can have ended at `end`. If not, a clock that was ahead wrote the time, and it
// would delay captures until then.
inline bool CanHaveEnded(WallTime end, WallTime now) { return end <= now + kClocksDiffer; }

// A request is allowed when one of the policies that match the namespace allows all of it, and
// refused when no policy matches. kWait: the obstacle will pass by itself. kUsedUp: `automatic`,
// which is set when a schedule or trigger is about to start the capture, has used up what a policy
// grants; it has the other runs of the job.
Verdict JudgeByPolicies(const std::vector<ProfilePolicy>& policies, const NamespaceFacts& ns,
                        const capture::Spec& capture, WallTime now,
                        const JobRuns* automatic = nullptr);
// Whether JudgeByPolicies depends on the other runs of the job.
bool BoundsStarts(const std::vector<ProfilePolicy>& policies, const NamespaceFacts& ns);

// "{namespace}" in a policy's logdir replaced by the namespace's name.
std::string WithNamespace(std::string logdir, const std::string& ns);

// The logdir of a request that names none. NotFound if no policy that matches the namespace has a
// default, and FailedPrecondition if they have different ones; the message tells the requester what
// to do.
absl::StatusOr<std::string> DefaultLogdir(const std::vector<ProfilePolicy>& policies,
                                          const NamespaceFacts& ns);

// The user of sidecars in the namespace, if policies that match it give one. FailedPrecondition,
// with a message for people, if they give different ones.
absl::StatusOr<std::optional<kube::SidecarUser>> SidecarUserOf(
    const std::vector<ProfilePolicy>& policies, const NamespaceFacts& ns);

// Whether a policy that matches the namespace lets pods have their GPUs recorded at all times.
bool AllowsFlightRecorderDevices(const std::vector<ProfilePolicy>& policies,
                                 const NamespaceFacts& ns);

// InvalidArgument for logdirs that are refused whatever policies allow: buckets that are addresses
// or host names inside a cluster, and options, because they could send a pod's signed requests to
// another host.
absl::Status CheckLogdirIsNoAddress(const std::string& logdir);
// Whether `logdir` is `prefix` or lies below it. Both are normalized first and compared by whole
// path parts: s3://b/team-x is not below s3://b/team.
bool IsBelow(const std::string& logdir, const std::string& prefix);

// The conditions that the policy's status should have: Ready tells whether the policy can be used
// as it is written. A policy whose conditions are these already gets them back unchanged, so that
// nothing has to be written.
std::vector<kube::Condition> PolicyConditions(const ProfilePolicy& policy, WallTime now);

// The collection of all policies; they have no namespace.
std::string PoliciesPath();
// A policy that cannot be parsed allows nothing; `invalid` has the reason.
ProfilePolicy ParsePolicy(const nlohmann::json& object);
// The object to apply to the subresource status.
nlohmann::json PolicyStatusToJson(const ProfilePolicy& policy,
                                  const std::vector<kube::Condition>& conditions);

}  // namespace strobe::policy
