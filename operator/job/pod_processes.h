// How many processes of a job a pod's container runs, as far as its object tells. Pure.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>

namespace strobe::kube {

// What torchrun's --nproc-per-node says in the container's command, or the variable
// PET_NPROC_PER_NODE in its environment; "gpu" and "auto" mean a process for each accelerator that
// the container requests. 0 if neither is there.
std::size_t ProcessesOf(const nlohmann::json& container);

// The number in the container's command if it has the option once, with a number; else 0. A script
// that starts several programs runs them one after the other, and the variable may be a default
// that a job's controller sets whether or not the container starts torchrun.
std::size_t CertainProcessesOf(const nlohmann::json& container);

}  // namespace strobe::kube
