// The environment variables that injection gives a trainer's container. Pure.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace strobe::admission {

// What the trainers' containers get.
struct TrainerOptions {
  bool alone = true;  // Only one container trains.
  bool python = false, kineto = false, host_network = false;
  std::string ports_to_close{}, disabled{};  // See SidecarSpec.
  std::string collectives{};                 // See kCollectivesAnnotation; empty for none.
};

struct VariableChange {
  std::optional<std::size_t> at{};  // The variable of the container's `env` that gets the value.
  std::string name{}, value{};      // Without `at`, the variable is appended.
};

// Nothing that Kubernetes would give the container is hidden without a warning: neither a variable
// of its `env`, of which the last one of a name counts, nor one of its `envFrom`, whose ConfigMaps
// and Secrets are not known here. `mounts_instead`: it has no folder of the sidecar's.
std::vector<VariableChange> ChangeVariables(const nlohmann::json& container,
                                            const TrainerOptions& options, bool mounts_instead,
                                            std::vector<std::string>& warnings);

}  // namespace strobe::admission
