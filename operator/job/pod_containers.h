// The sidecar among a pod's containers, and the others. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <vector>

namespace strobe::job {

// The pod's sidecar; a JSON null if it has none.
const nlohmann::json& SidecarOf(const nlohmann::json& spec);

// All other containers, then all other init containers. They live as long as `spec`.
std::vector<const nlohmann::json*> OtherContainers(const nlohmann::json& spec);

}  // namespace strobe::job
