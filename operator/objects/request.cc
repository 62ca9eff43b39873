#include "operator/objects/request.h"

namespace strobe::objects {

std::span<const job::TargetSpec> TargetsOf(const ProfileRequest& request) {
  if (request.targets.empty()) return {&request.target, 1};
  return request.targets;
}

const kube::Condition* FindCondition(const RequestStatus& status, std::string_view type) {
  return kube::FindCondition(status.conditions, type);
}

bool IsFinished(const RequestStatus& status) {
  const kube::Condition* succeeded = FindCondition(status, condition::kSucceeded);
  return succeeded != nullptr && succeeded->status != kube::ConditionStatus::kUnknown;
}

}  // namespace strobe::objects
