// Pod objects to core values.
#pragma once
#include <nlohmann/json.hpp>

#include "operator/core/pod.h"

namespace strobe::kube {

inline constexpr char kSidecarContainer[] = "strobe-sidecar";
inline constexpr char kSidecarPort[] = "strobe";
// Pods and namespaces that carry it, with value "true", are injected; a pod's "false" beats both.
inline constexpr char kInjectLabel[] = "strobe.dev/inject";

// What injection wrote down: {"version": ..., "hash": ..., "containers": [...]}.
inline constexpr char kStatusAnnotation[] = "strobe.dev/status";

// What is missing or of another type than expected is left empty.
PodInfo ParsePod(const nlohmann::json& object);

// What a container asks for. Whatever it is, nothing is thrown.
ContainerDevices DevicesOf(const nlohmann::json& container);

}  // namespace strobe::kube
