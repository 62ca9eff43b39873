// What the installation gives every sidecar: variables, files from the pod's namespace and disk.
// Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "operator/admission/sidecar_spec.h"

namespace strobe {

// Adds the installation's environment variables, mounts its files, and adds variables with the
// paths of these. Returns the volumes for the mounts.
std::vector<nlohmann::json> AddDefaults(const InjectionSettings& settings,
                                        const SidecarVolumes& names, nlohmann::json& environment,
                                        nlohmann::json& mounts);

// Adds the installation's request for ephemeral storage. A limit that is smaller is raised, because
// the API server would refuse the pod.
void RequestDisk(const InjectionSettings& settings, nlohmann::json& resources);

}  // namespace strobe
