// What triggers need from outside, and what they tell about themselves; operator/metrics listens.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/job/pod.h"
#include "operator/policy/retention.h"
#include "operator/trigger/trigger.h"

namespace strobe::trigger {

// Why a connection or a post was refused.
inline constexpr std::array<std::string_view, 8> kAlertRefusals = {
    "handshake", "token", "too_long", "slow", "busy", "crowded", "rate", "malformed"};
// What was left out of accepted posts. "truncated": the sender itself had left alerts out.
inline constexpr std::array<std::string_view, 4> kAlertDrops = {"truncated", "too_many", "invalid",
                                                                "annotation"};

// Safe for concurrent use; must not block.
class AlertReceiverObserver {
 public:
  virtual ~AlertReceiverObserver() = default;
  virtual void Answered(int code) = 0;
  virtual void Read(std::size_t body_bytes) = 0;
  // Alerts that the sink has decided on.
  virtual void Taken(std::size_t firing, std::size_t resolved) = 0;
  // `reason` is one of kAlertRefusals.
  virtual void Refused(std::string_view reason) = 0;
  // `reason` is one of kAlertDrops.
  virtual void Dropped(std::string_view reason, std::uint64_t count) = 0;
};

// The Kubernetes API. Calls block, each for a bounded time. Safe for concurrent use.
class Cluster {
 public:
  virtual ~Cluster() = default;

  // The trigger as it is stored now, with a seal that will last. NotFound when there is none.
  virtual absl::StatusOr<ProfileTrigger> ReadTrigger(const std::string& ns, const std::string& name,
                                                     Nanos within) = 0;
  // All runs of the namespace's triggers for the job, as they are stored now.
  virtual absl::StatusOr<std::vector<TriggerRun>> ReadRuns(const std::string& ns,
                                                           const std::string& job,
                                                           Nanos within) = 0;
  virtual absl::StatusOr<job::PodInfo> ReadPod(const std::string& ns, const std::string& name,
                                               Nanos within) = 0;
  // Judges access and policies as for a request by the trigger's creator, and creates the run.
  // Nothing if the run exists, even if another operator created it; `run` gets another name if
  // somebody else has taken the usual one. After an error, try again.
  virtual absl::StatusOr<std::optional<kube::RunRefusal>> StartRun(const ProfileTrigger& trigger,
                                                                   TriggeredRun& run,
                                                                   Nanos within) = 0;

  // Reads the cache, which already shows the operator's own writes. NotFound when there is no such
  // object; InvalidArgument when it cannot be parsed.
  virtual absl::StatusOr<ProfileTrigger> GetTrigger(const std::string& key) = 0;
  // What policies say about the runs that are kept in the namespace; none if that is not known now.
  virtual std::optional<policy::SeriesBounds> BoundsOf(const std::string& ns) = 0;
  // Reads the cache.
  virtual std::vector<TriggerRun> RunsOf(const ProfileTrigger& trigger) = 0;
  virtual absl::Status DeleteRun(const ProfileTrigger& trigger, const kube::CreatedRun& run) = 0;
  // Aborted when the object has changed since it was read.
  virtual absl::Status WriteStatus(const ProfileTrigger& trigger, const TriggerStatus& status) = 0;
  // Seals the trigger again if its seal is by a key that will be given up. Returns after how long
  // to call it again, also after a failure; none if there are no seals.
  virtual std::optional<Nanos> KeepSealed(const ProfileTrigger& trigger) = 0;
  // Never blocks; an event that cannot be written is dropped.
  virtual void RecordEvent(const ProfileTrigger& trigger, bool warning, const std::string& reason,
                           const std::string& action, const std::string& note) = 0;
};

class Metrics {
 public:
  virtual ~Metrics() = default;
  // `outcome` is Taken, Resolved, Unmatched, Failed, or the reason why an alert started nothing.
  virtual void AlertDecided(std::string_view outcome) = 0;
  // A sign from a worker, by its kind's name. `outcome` is Taken, Failed, or a reason.
  virtual void SignDecided(std::string_view sign, std::string_view outcome) = 0;
};

}  // namespace strobe::trigger
