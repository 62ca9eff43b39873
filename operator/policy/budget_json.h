// Reads budgets, which ProfileTriggers and ProfilePolicies write alike. For use in this folder.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "operator/policy/capture_budget.h"

namespace strobe::policy {

// The fields coolDown, capturesPerDay, dutyCycle and bytesPerDay of `given`. InvalidArgument names
// the one that is wrong as "<field>.<name>". Throws nlohmann's exceptions if one has the wrong
// type.
absl::StatusOr<CaptureBudget> ReadBudget(const nlohmann::json& given, const std::string& field);

}  // namespace strobe::policy
