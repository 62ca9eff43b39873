// Serializes JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace strobe::kube {

// Serializes a value and replaces invalid UTF-8, for which nlohmann's own dump() throws. Use it for
// all values that contain text from outside.
std::string Dump(const nlohmann::json& value);

}  // namespace strobe::kube
