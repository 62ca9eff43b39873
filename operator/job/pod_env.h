// Reads a container's environment variables as its process sees them, as far as the pod object
// tells.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "operator/job/pod.h"

namespace strobe::kube {

// Reads the variables that IsRankVariable selects. Resolves literal values, the pod's own fields
// (fieldRef) and references to earlier variables ("$(NAME)"). Values from elsewhere, such as a
// Secret, are left out. `pod` must have its metadata. Throws nlohmann's exceptions if a field has
// the wrong type.
std::map<std::string, std::string> ReadRankVariables(const nlohmann::json& container,
                                                     const PodInfo& pod);

}  // namespace strobe::kube
