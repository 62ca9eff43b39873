// Pod objects to core values.
#pragma once
#include <nlohmann/json.hpp>

#include "operator/core/targets.h"

namespace strobe::kube {

inline constexpr char kSidecarContainer[] = "strobe-sidecar";
inline constexpr char kSidecarPort[] = "strobe";
// Pods and namespaces that carry it, with value "true", are injected; a pod's "false" beats both.
inline constexpr char kInjectLabel[] = "strobe.dev/inject";

// What is missing or of another type than expected is left empty.
PodInfo ParsePod(const nlohmann::json& object);

}  // namespace strobe::kube
