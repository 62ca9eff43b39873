// Converts ProfilePolicy objects to core values.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "operator/core/policy.h"

namespace strobe::kube {

// A policy that cannot be parsed allows nothing; `invalid` has the reason.
ProfilePolicy ParsePolicy(const nlohmann::json& object);
// The object to apply to the subresource status.
nlohmann::json PolicyStatusToJson(const ProfilePolicy& policy,
                                  const std::vector<Condition>& conditions);

inline constexpr char kPoliciesPath[] = "/apis/strobe.dev/v1alpha1/profilepolicies";

}  // namespace strobe::kube
