// JSON as text.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace strobe::kube {

// What is no UTF-8 in it is replaced, where nlohmann's own dump() throws: whoever writes what came
// from somewhere else writes it by this.
std::string Dump(const nlohmann::json& value);

}  // namespace strobe::kube
