#include "operator/core/condition.h"

#include <algorithm>

namespace strobe {

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type) {
  const auto found =
      std::find_if(conditions.begin(), conditions.end(),
                   [type](const Condition& condition) { return condition.type == type; });
  return found == conditions.end() ? nullptr : &*found;
}

void SetSince(const std::vector<Condition>& before, WallTime now, Condition& condition) {
  const Condition* old = FindCondition(before, condition.type);
  const bool same = old != nullptr && old->status == condition.status;
  condition.since = same ? old->since : WholeSeconds(now);
}

WallTime WholeSeconds(WallTime time) { return std::chrono::floor<std::chrono::seconds>(time); }

}  // namespace strobe
