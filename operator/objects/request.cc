#include "operator/objects/request.h"

namespace strobe {

const Condition* FindCondition(const RequestStatus& status, std::string_view type) {
  return FindCondition(status.conditions, type);
}

bool IsFinished(const RequestStatus& status) {
  const Condition* succeeded = FindCondition(status, condition::kSucceeded);
  return succeeded != nullptr && succeeded->status != ConditionStatus::kUnknown;
}

}  // namespace strobe
