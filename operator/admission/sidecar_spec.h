// Builds the sidecar container and names the volumes that it shares with the trainer. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "operator/admission/inject.h"

namespace strobe::admission {

inline constexpr char kSharedPath[] = "/var/strobe", kSpoolPath[] = "/var/lib/strobe",
                      kTokenPath[] = "/var/run/secrets/strobe";
// The files that InjectionSettings names.
inline constexpr char kStorageConfigPath[] = "/etc/strobe/storage-config",
                      kStorageCaPath[] = "/etc/strobe/storage-ca";
// Where processes with PyTorch leave the traces of Kineto's on-demand protocol.
inline constexpr char kKinetoPath[] = "/var/strobe/kineto";
inline constexpr char kAgentLibrary[] = "/var/strobe/lib/libstrobe_agent.so";

// Names of Strobe's volumes in a pod.
struct SidecarVolumes {
  std::string shared{}, spool{}, token{}, storage_config{}, storage_ca{};
};
// The names that the pod's sidecar uses, or new names that no other volume has.
SidecarVolumes VolumesFor(const nlohmann::json& pod);

// Adds the installation's environment variables, mounts its files, and adds variables with the
// paths of these. Returns the volumes for the mounts.
std::vector<nlohmann::json> AddDefaults(const InjectionSettings& settings,
                                        const SidecarVolumes& names, nlohmann::json& environment,
                                        nlohmann::json& mounts);

// Adds the installation's request for ephemeral storage. A limit that is smaller is raised, because
// the API server would refuse the pod.
void RequestDisk(const InjectionSettings& settings, nlohmann::json& resources);

struct SidecarSpec {
  bool native = true;  // It is an init container, else an ordinary one.
  nlohmann::json container{};
  std::string agent_memory{};             // The size of the shared volume, as a quantity.
  std::vector<nlohmann::json> volumes{};  // Only what this sidecar's mounts need.
  // The ports of the trainer's profiler servers that the trainer is to close to other machines,
  // separated by commas; empty if it is not asked to.
  std::string ports_to_close{};
  std::string disabled{};  // What is not changed in the trainer, separated by commas.
  // The choices of the port for captures if the container declares none; see SidecarPorts.
  std::vector<int> host_ports{};
  std::vector<int> served_ports{};  // Fixed ports that are reached from outside the pod.
  std::string cannot{};  // Why the namespace has no room for a sidecar; the rest is then empty.
};
// Builds the sidecar of a pod. `trainers` are the names of the containers that train. An annotation
// that is invalid or cannot be followed causes a warning and is ignored, so that the API server
// always accepts the pod and the pod starts.
SidecarSpec MakeSidecar(const nlohmann::json& pod, const InjectionSettings& settings,
                        const InjectionContext& context, const SidecarVolumes& volumes,
                        const std::vector<std::string>& trainers,
                        std::vector<std::string>& warnings);

// Removes trailing slashes and empty parts.
std::string WithoutSlashes(const std::string& path);

}  // namespace strobe::admission
