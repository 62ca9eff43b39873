// The container that injection adds to a pod, and the volumes that it and the trainer share. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "operator/admission/inject.h"

namespace strobe {

inline constexpr char kSharedPath[] = "/var/strobe", kSpoolPath[] = "/var/lib/strobe",
                      kTokenPath[] = "/var/run/secrets/strobe";

// Names of our volumes in a pod.
struct SidecarVolumes {
  std::string shared{}, spool{}, token{};
};
// As its sidecar mounts them, or names that no volume of the user's has.
SidecarVolumes VolumesFor(const nlohmann::json& pod);

struct SidecarSpec {
  nlohmann::json container{};
  std::string agent_memory{};  // A quantity: how large the shared volume may become.
};
// `trainers`: the names of the containers that train.
// What the pod's annotations ask for and cannot be had is told in a warning and left out: whatever
// they say, the pod stays one that the API server takes and that starts.
SidecarSpec MakeSidecar(const nlohmann::json& pod, const InjectionSettings& settings,
                        const std::string& roots, const SidecarVolumes& volumes,
                        const std::vector<std::string>& trainers,
                        std::vector<std::string>& warnings);

// A path without slashes at its end and without empty parts.
std::string WithoutSlashes(const std::string& path);

}  // namespace strobe
