// What the core needs to know of a pod. Plain values; operator/kube reads them from the object.
#pragma once
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/core/accelerators.h"

namespace strobe {

struct ContainerInfo {
  std::string name{};
  ContainerDevices devices{};
  // The variables that IsRankVariable() names, as the process sees them where the pod alone can
  // say it: literal values, the pod's own fields, and references to other such variables.
  std::map<std::string, std::string> env{};
};

struct PodInfo {
  std::string name{}, uid{}, ip{}, phase{};
  bool wants_injection = false;  // Carries our label.
  std::string damage{};          // Why its sidecar cannot work; empty when nothing is known.
  bool terminating = false;
  std::string reason{};  // Of a pod that was ended from outside, such as Evicted.
  int sidecar_port = 0;  // Of the container strobe-sidecar's port named strobe; 0 = no such.
  std::vector<ContainerInfo> containers{};  // In the pod's order, without the sidecar.
  // Names of those that train: as injection wrote down, else as ChooseTrainers has it. Empty only
  // when there are no containers.
  std::vector<std::string> trainers{};
  bool injected = false;  // `trainers` is what injection wrote down.
  std::map<std::string, std::string> labels{}, annotations{};
  struct Owner {
    std::string kind{}, name{};
  };
  std::vector<Owner> owners{};
  struct ContainerState {
    std::string name{};
    int restarts = 0;
    std::string waiting{};  // Why it does not run, such as CrashLoopBackOff; empty when it runs.
    // How it ended last, such as OOMKilled; empty when it never did.
    std::string ended{};
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

}  // namespace strobe
