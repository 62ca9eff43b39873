// Converts pod objects to core values.
#pragma once
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "operator/job/pod.h"

namespace strobe::job {

// How many processes of a job a pod's container runs: what torchrun's --nproc-per-node says in the
// container's command, or the variable PET_NPROC_PER_NODE in its environment; "gpu" and "auto" mean
// a process for each accelerator that the container requests. 0 if neither is there.
std::size_t ProcessesOf(const nlohmann::json& container);

// The number in the container's command if it has the option once, with a number; else 0. A script
// that starts several programs runs them one after the other, and the variable may be a default
// that a job's controller sets whether or not the container starts torchrun.
std::size_t CertainProcessesOf(const nlohmann::json& container);

// Reads the container's environment variables that IsRankVariable selects, as its process sees
// them. Resolves literal values, the pod's own fields (fieldRef) and references to earlier
// variables ("$(NAME)"). Values from elsewhere, such as a Secret, are left out. `pod` must have its
// metadata. Throws nlohmann's exceptions if a field has the wrong type.
std::map<std::string, std::string> ReadRankVariables(const nlohmann::json& container,
                                                     const PodInfo& pod);

// Fields that are missing or have another type are left empty.
PodInfo ParsePod(const nlohmann::json& object);

// Drops the labels and annotations by which no capture finds or numbers its workers.
void KeepUsed(PodInfo& pod);

// Why the pod is never injected, whatever the labels say; empty if it may be. Never throws.
std::string WhyNeverInjected(const nlohmann::json& object);

// The devices that a container requests. Never throws.
capture::ContainerDevices DevicesOf(const nlohmann::json& container);

}  // namespace strobe::job
