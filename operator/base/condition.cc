#include "operator/base/condition.h"

#include <algorithm>
#include <utility>

namespace strobe::kube {

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

void PutCondition(const std::vector<Condition>& before, WallTime now, Condition condition,
                  std::vector<Condition>& conditions) {
  SetSince(before, now, condition);
  std::erase_if(conditions,
                [&](const Condition& present) { return present.type == condition.type; });
  conditions.push_back(std::move(condition));
}

WallTime WholeSeconds(WallTime time) { return std::chrono::floor<std::chrono::seconds>(time); }

}  // namespace strobe::kube
