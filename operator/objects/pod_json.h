// Pod objects to core values.
#pragma once
#include <nlohmann/json.hpp>

#include "operator/core/pod.h"

namespace strobe::kube {

// What is missing or of another type than expected is left empty.
PodInfo ParsePod(const nlohmann::json& object);

// What a container asks for. Whatever it is, nothing is thrown.
ContainerDevices DevicesOf(const nlohmann::json& container);

}  // namespace strobe::kube
