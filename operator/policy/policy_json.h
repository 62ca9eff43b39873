// Converts ProfilePolicy objects to core values.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "operator/policy/policy.h"

namespace strobe::policy {

// The collection of all policies; they have no namespace.
std::string PoliciesPath();
// A policy that cannot be parsed allows nothing; `invalid` has the reason.
ProfilePolicy ParsePolicy(const nlohmann::json& object);
// The object to apply to the subresource status.
nlohmann::json PolicyStatusToJson(const ProfilePolicy& policy,
                                  const std::vector<kube::Condition>& conditions);
}  // namespace strobe::policy
