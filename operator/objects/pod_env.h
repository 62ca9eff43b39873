// A container's variables as its process sees them, as far as the pod object alone tells.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "operator/core/pod.h"

namespace strobe::kube {

// Those that IsRankVariable names. Literal values, the pod's own fields (fieldRef) and references
// to variables before them ("$(NAME)") are resolved; what comes from elsewhere, such as a Secret,
// is left out. `pod` has its metadata. Throws as nlohmann-json does when a field has the wrong
// type.
std::map<std::string, std::string> ReadRankVariables(const nlohmann::json& container,
                                                     const PodInfo& pod);

}  // namespace strobe::kube
