// Converts conditions of a status. For use in this folder.
#pragma once
#include <nlohmann/json.hpp>
#include <vector>

#include "operator/base/condition.h"

namespace strobe::kube {

// Throws nlohmann's exceptions if a field has the wrong type.
std::vector<Condition> ReadConditions(const nlohmann::json& status);
nlohmann::json ConditionsToJson(const std::vector<Condition>& conditions);

}  // namespace strobe::kube
