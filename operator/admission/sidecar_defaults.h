// What the installation gives every sidecar: variables, files from the pod's namespace and disk.
// Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "operator/admission/sidecar_spec.h"

namespace strobe {

// Adds the installation's variables, and the mounts of its files with the variables that lead to
// them. Returns the volumes for the mounts.
std::vector<nlohmann::json> AddDefaults(const InjectionSettings& settings,
                                        const SidecarVolumes& names, nlohmann::json& environment,
                                        nlohmann::json& mounts);

// Adds the request for ephemeral storage, and a limit where the pod has limits: the kubelet evicts
// a pod whose disk use exceeds the sum of its containers' limits, and the spool counts.
void AddDisk(const nlohmann::json& spec, const InjectionSettings& settings,
             const std::string& spool_size, nlohmann::json& resources);

}  // namespace strobe
