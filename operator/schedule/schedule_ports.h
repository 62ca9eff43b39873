// What the reconciler of ProfileSchedules needs from outside.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/policy/retention.h"
#include "operator/schedule/schedule.h"

namespace strobe::schedule {

// The Kubernetes API. Calls block, each for a bounded time.
class Cluster {
 public:
  virtual ~Cluster() = default;
  // From the cache, which already shows the operator's own writes. NotFound when there is no such
  // object; InvalidArgument when it cannot be parsed.
  virtual absl::StatusOr<ProfileSchedule> GetSchedule(const std::string& key) = 0;
  // All existing runs of the schedule. A run that is active in the status but missing from the
  // cache has been looked up at the API server.
  virtual absl::StatusOr<std::vector<kube::CreatedRun>> RunsOf(const ProfileSchedule& schedule) = 0;
  // What policies say about the runs that are kept in the namespace; none if that is not known now.
  virtual std::optional<policy::SeriesBounds> BoundsOf(const std::string& ns) = 0;
  // Judges access and policies as for a request by the schedule's creator, and creates the run.
  // Nothing if the run exists, even if another operator created it; `due` gets another name if
  // somebody else has taken the usual one. After an error, try again.
  virtual absl::StatusOr<std::optional<kube::RunRefusal>> StartRun(const ProfileSchedule& schedule,
                                                                   DueRun& due) = 0;
  virtual absl::Status CancelRun(const ProfileSchedule& schedule, const kube::CreatedRun& run) = 0;
  virtual absl::Status DeleteRun(const ProfileSchedule& schedule, const kube::CreatedRun& run) = 0;
  // Aborted when the object has changed since it was read.
  virtual absl::Status WriteStatus(const ProfileSchedule& schedule,
                                   const ScheduleStatus& status) = 0;
  // Seals the schedule again if its seal is by a key that will be given up. Returns after how long
  // to call it again, also after a failure; none if there are no seals.
  virtual std::optional<Nanos> KeepSealed(const ProfileSchedule& schedule) = 0;
  // Never blocks; an event that cannot be written is dropped.
  virtual void RecordEvent(const ProfileSchedule& schedule, bool warning, const std::string& reason,
                           const std::string& action, const std::string& note) = 0;
};

class Metrics {
 public:
  virtual ~Metrics() = default;
  // `result` is started, succeeded, failed, cancelled or skipped.
  virtual void RunsCounted(const std::string& ns, std::string_view result, std::int64_t count) = 0;
};

}  // namespace strobe::schedule
