// Converts ResourceQuota and LimitRange objects to core values. Never throws: what cannot be read
// limits nothing.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "operator/admission/namespace_limits.h"

namespace strobe::admission {

std::vector<LimitRule> ParseLimitRange(const nlohmann::json& object);
Quota ParseQuota(const nlohmann::json& object);

// A quantity in any form that the API server stores, such as "1500m", "2e3" or a number.
std::optional<double> AmountOf(const nlohmann::json& quantity);
// The readable quantities of a resource list.
Amounts AmountsOf(const nlohmann::json& list);

}  // namespace strobe::admission
