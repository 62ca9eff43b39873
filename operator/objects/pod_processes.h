// How many processes of a job a pod's container runs, as far as its object tells. Pure.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>

namespace strobe::kube {

// What torchrun's --nproc-per-node says in the container's command, or the variable
// PET_NPROC_PER_NODE in its environment; "gpu" and "auto" mean a process for each accelerator that
// the container requests. 0 if neither is there.
std::size_t ProcessesOf(const nlohmann::json& container);

}  // namespace strobe::kube
