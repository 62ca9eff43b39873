// The status that a ProfileTrigger should show, and which of its runs are removed. Pure.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/policy/retention.h"
#include "operator/trigger/trigger.h"

namespace strobe {

// What came of alerts since the status was written last, other than captures, which are counted by
// their runs.
struct TriggerNotes {
  std::map<std::string, std::int64_t> skipped{};  // By reason.
  std::optional<WallTime> last_alert{};
  std::optional<SkippedAlert> last_skip{};

  bool empty() const { return !last_alert; }
  // Adds what was noted earlier.
  void AddEarlier(const TriggerNotes& earlier);
};

struct TriggerDecision {
  TriggerStatus status{};
  std::vector<CreatedRun> remove{};  // See retention.h.
  // When to look again; none = when the trigger or one of its runs changes.
  std::optional<Nanos> look_again{};
};

// `runs` are the trigger's runs that exist. `bounds`: none if they are not known.
TriggerDecision DecideTrigger(const ProfileTrigger& trigger, const std::vector<TriggerRun>& runs,
                              const TriggerNotes& notes, const std::optional<SeriesBounds>& bounds,
                              WallTime now);

}  // namespace strobe
