// What a ProfileSchedule needs now: a run that is due, runs that have ended and are counted or
// removed, and the status that tells it. Pure: it follows from the object, its runs and the time,
// so that it may be asked at any time, after any crash, any number of times.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "operator/policy/retention.h"
#include "operator/schedule/schedule.h"

namespace strobe::schedule {

struct Decision {
  // The status to write once everything below was done, except for `due`; see Started and Skipped.
  ScheduleStatus status{};
  std::optional<DueRun> due{};  // To be started, unless it is refused.
  // Active runs to cancel, because a newer one replaces them: the due run, unless it is refused, or
  // one that was started before.
  std::vector<kube::CreatedRun> cancel{};
  std::vector<kube::CreatedRun> remove{};  // See retention.h.
  std::vector<std::string> gone{};         // Active runs that somebody has deleted.
  bool clock_went_back = false;            // Back by so much that times are decided again.
  // When to look again; none = when the schedule or one of its runs changes.
  std::optional<Nanos> look_again{};
};

// `runs` are all existing runs of the schedule. `bounds`: none if they are not known.
Decision DecideSchedule(const ProfileSchedule& schedule, const std::vector<kube::CreatedRun>& runs,
                        const std::optional<policy::SeriesBounds>& bounds, WallTime now);

// The status when the due run exists.
ScheduleStatus Started(ScheduleStatus status, const DueRun& due);
// The status when the run that was due at `time` is not started.
ScheduleStatus Skipped(ScheduleStatus status, WallTime time, std::string reason,
                       std::string message);

}  // namespace strobe::schedule
