#include "operator/objects/request.h"

namespace strobe {

std::span<const TargetSpec> TargetsOf(const ProfileRequest& request) {
  if (request.targets.empty()) return {&request.target, 1};
  return request.targets;
}

const Condition* FindCondition(const RequestStatus& status, std::string_view type) {
  return FindCondition(status.conditions, type);
}

bool IsFinished(const RequestStatus& status) {
  const Condition* succeeded = FindCondition(status, condition::kSucceeded);
  return succeeded != nullptr && succeeded->status != ConditionStatus::kUnknown;
}

}  // namespace strobe
