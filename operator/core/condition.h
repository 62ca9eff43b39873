// One of the conditions in an object's status.
#pragma once
#include <cstdint>
#include <string>

#include "common/base/clock.h"

namespace strobe {

enum class ConditionStatus { kUnknown, kTrue, kFalse };

struct Condition {
  std::string type{};
  ConditionStatus status = ConditionStatus::kUnknown;
  std::string reason{}, message{};
  std::int64_t observed_generation = 0;
  WallTime since{};  // lastTransitionTime, in whole seconds.

  bool operator==(const Condition&) const = default;
};

}  // namespace strobe
