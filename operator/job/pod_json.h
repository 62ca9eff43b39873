// Converts pod objects to core values.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "operator/job/pod.h"

namespace strobe::kube {

// Fields that are missing or have another type are left empty.
PodInfo ParsePod(const nlohmann::json& object);

// Drops the labels and annotations by which no capture finds or numbers its workers.
void KeepUsed(PodInfo& pod);

// Why the pod is never injected, whatever the labels say; empty if it may be. Never throws.
std::string WhyNeverInjected(const nlohmann::json& object);

// The devices that a container requests. Never throws.
ContainerDevices DevicesOf(const nlohmann::json& container);

}  // namespace strobe::kube
