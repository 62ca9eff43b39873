// What the core needs to know about a pod. Plain values, filled in by operator/objects.
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "capture/accelerators.h"
#include "common/base/clock.h"

namespace strobe::job {

struct ContainerInfo {
  std::string name{};
  capture::ContainerDevices devices{};
  // The environment variables that tell a rank (see IsRankVariable), as far as the pod's object
  // determines their values: literals, fields of the pod, and references to other such variables.
  std::map<std::string, std::string> env{};
  // How many processes of the job it runs, as far as its command tells; 0 = not known.
  std::size_t processes = 0;
  // Like `processes`, but only where nothing else can be meant: one number, in one option of the
  // command.
  std::size_t certain_processes = 0;
  // What its command says that it does in a disaggregated service; see RoleInCommand.
  std::string role{};
};

struct PodInfo {
  std::string name{}, uid{}, ip{}, phase{};
  std::string node{};  // Empty while it has none.
  std::optional<WallTime> created{};
  bool wants_injection = false;  // Its own label kInjectLabel is "true".
  std::string damage{};          // Why its sidecar cannot work; empty when no reason is known.
  bool terminating = false;      // It is being deleted.
  std::string reason{};          // Why it was ended from outside, such as Evicted; else empty.
  // "cannot be scheduled: ..." if the scheduler finds no node for it; else empty.
  std::string unschedulable{};
  bool has_sidecar = false;  // It has a container `strobe-sidecar`.
  int sidecar_port = 0;      // That container's port for captures; 0 = there is none.
  // On the host's network: where the sidecar may listen instead, because a port was taken.
  std::vector<int> other_ports{};
  std::vector<ContainerInfo> containers{};  // In the pod's order, without the sidecar.
  // Names of the containers that train: from injection's annotation, else by ChooseTrainers. Empty
  // only when the pod has no containers.
  std::vector<std::string> trainers{};
  bool injected = false;  // `trainers` comes from injection's annotation.
  std::map<std::string, std::string> labels{}, annotations{};
  struct Owner {
    std::string kind{}, name{};
  };
  std::vector<Owner> owners{};
  struct ContainerState {
    std::string name{};
    int restarts = 0;
    std::string waiting{};  // Why it does not run, such as CrashLoopBackOff; empty when it runs.
    // Why it ended last, such as OOMKilled; empty when it has never ended.
    std::string end_reason{};
    int exit_code = 0;
    std::optional<WallTime> ended_at{};
  };
  std::vector<ContainerState> states{};
};

inline bool HasEnded(const PodInfo& pod) {
  return pod.phase == "Succeeded" || pod.phase == "Failed";
}

// Null when the pod has no such container.
inline const ContainerInfo* FindContainer(const PodInfo& pod, const std::string& name) {
  const auto found = std::find_if(pod.containers.begin(), pod.containers.end(),
                                  [&](const ContainerInfo& c) { return c.name == name; });
  return found == pod.containers.end() ? nullptr : &*found;
}

// The pod's sidecar; a JSON null if it has none.
const nlohmann::json& SidecarOf(const nlohmann::json& spec);

// All other containers, then all other init containers. They live as long as `spec`.
std::vector<const nlohmann::json*> OtherContainers(const nlohmann::json& spec);

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
