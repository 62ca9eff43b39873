// The condition Ready of a ProfilePolicy: whether the policy can be used as it is written. Pure.
#pragma once
#include <vector>

#include "operator/policy/policy.h"

namespace strobe {

// The conditions that the policy's status should have. A policy whose conditions are these already
// gets them back unchanged, so that nothing has to be written.
std::vector<Condition> PolicyConditions(const ProfilePolicy& policy, WallTime now);

}  // namespace strobe
