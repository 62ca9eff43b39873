// Converts ProfilePolicy objects to core values.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "operator/core/policy.h"

namespace strobe::kube {

// A policy that cannot be parsed allows nothing; `invalid` has the reason.
ProfilePolicy ParsePolicy(const nlohmann::json& object);

}  // namespace strobe::kube
