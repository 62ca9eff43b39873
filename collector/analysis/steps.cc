#include "collector/analysis/steps.h"

#include <algorithm>

#include "collector/xplane/lanes.h"
#include "collector/xplane/names.h"
#include "common/base/status_macros.h"

namespace strobe {

absl::StatusOr<std::vector<Step>> FindSteps(const xplane::Space& space) {
  std::vector<Step> steps;
  for (const xplane::Plane& plane : space.planes) {
    const std::int64_t number_id = plane.StatId("step_num");
    if (number_id == 0 || !plane.name.starts_with(xplane::kHostPlane)) continue;
    for (const xplane::Line& line : plane.lines) {
      ASSIGN_OR_RETURN(const std::vector<xplane::Placed> events, xplane::PlaceEvents(line));
      for (const xplane::Placed& event : events) {
        RETURN_IF_ERROR(ForEachStat(plane, event.event, [&](const xplane::Stat& stat) {
          const std::optional<std::int64_t> number = stat.Integer();
          if (stat.name_id == number_id && number)
            steps.push_back({plane.NameOf(event.event), *number, event.begin_ps, event.end_ps});
        }));
      }
    }
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.begin_ps < b.begin_ps; });
  return steps;
}

}  // namespace strobe
