// The values of a ProfileSchedule, without JSON. helm/strobe/crds/profileschedules.yaml describes
// the fields and their ranges.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "operator/base/condition.h"
#include "operator/base/run_creator.h"
#include "operator/objects/run_template.h"
#include "operator/schedule/schedule_times.h"

namespace strobe::schedule {

// What happens when a run is due while an earlier one is under way.
enum class ConcurrencyPolicy { kAllow, kForbid, kReplace };

// One of status.active: a run that was started and has not ended as far as the status knows.
struct ActiveRun {
  std::string name{};
  WallTime time{};  // The time that it was due, in whole seconds.

  bool operator==(const ActiveRun&) const = default;
};

// Why a due run was not started.
struct SkippedRun {
  WallTime time{};
  std::string reason{}, message{};

  bool operator==(const SkippedRun&) const = default;
};

struct ScheduleStatus {
  std::int64_t observed_generation = 0;
  std::vector<kube::Condition> conditions{};
  std::string timing{};                     // The Timing::Text that decided_until is for.
  std::optional<WallTime> decided_until{};  // What was due until then was started or skipped.
  std::optional<WallTime> last_schedule{}, last_success{}, next_schedule{};
  std::string last_run{};
  std::vector<ActiveRun> active{};
  std::int64_t started = 0, succeeded = 0, failed = 0, cancelled = 0, skipped = 0;
  std::optional<SkippedRun> last_skip{};

  bool operator==(const ScheduleStatus&) const = default;
};

struct ProfileSchedule : kube::RunCreator {
  ProfileSchedule() : kube::RunCreator(kube::CreatorKind::kSchedule) {}

  Timing timing{};
  ConcurrencyPolicy concurrency = ConcurrencyPolicy::kForbid;
  std::optional<Nanos> starting_deadline{};  // None = however late a run is, it is started.
  bool rotates = false;                      // Each run samples other workers.
  ScheduleStatus status{};
};

// A run that is to be started.
struct DueRun {
  WallTime time{};
  std::string name{};
  std::int64_t rotation = 0;  // Which turn of the rotation.
};

// "<schedule>-<date>-<time>" in UTC. It follows from the time that the run is due, so that a run
// cannot be created twice.
std::string RunNameOf(std::string_view schedule, WallTime time);
// The schedule's name from that of a run, which may be its other name; empty if it is no such name.
std::string ScheduleOfRun(std::string_view run);
// When a run of this name was due; none if it is no such name.
std::optional<WallTime> TimeOfRun(std::string_view run);

// With more active runs than this none is started.
inline constexpr std::size_t kMaxActiveRuns = 32;

// If the spec cannot be carried out, `invalid` has the reason and names the field. InvalidArgument
// if not even the metadata can be parsed.
absl::StatusOr<ProfileSchedule> ParseSchedule(const nlohmann::json& object);

// The object to apply to /status. The API server refuses it if the schedule has changed since it
// was read.
nlohmann::json ScheduleStatusToJson(const ProfileSchedule& schedule, const ScheduleStatus& status);

// The ProfileRequest to create for a run. It has no requester yet, and no logdir if the template
// has none. `schedule` is not invalid.
nlohmann::json RunToJson(const ProfileSchedule& schedule, const DueRun& run);

// Like RunToJson, for a run that is not due yet.
nlohmann::json ExampleRun(const ProfileSchedule& schedule);

}  // namespace strobe::schedule
