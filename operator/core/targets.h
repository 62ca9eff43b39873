// Which workers a request means. Pure: pods in, targets out.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/core/capture_spec.h"
#include "operator/core/request.h"

namespace strobe {

// What the core needs to know of a pod.
struct PodInfo {
  std::string name{}, uid{}, ip{}, phase{};
  bool wants_injection = false;  // Carries our label.
  std::string damage{};          // Why its sidecar cannot work; empty when nothing is known.
  bool terminating = false;
  std::string reason{};      // Of a pod that was ended from outside, such as Evicted.
  bool accelerator = false;  // One of its containers has a GPU or TPU.
  int sidecar_port = 0;      // Of the container strobe-sidecar's port named strobe; 0 = no such.
  std::string container{};   // The first container that is not the sidecar.
  std::map<std::string, std::string> labels{}, annotations{}, env{};  // env: of that container.
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

// How to find a job's pods.
struct PodQuery {
  std::string selector{};  // Label selector for the API server; may be empty.
  std::vector<std::string> names{};
  std::optional<JobRef> owner{};  // Keep only pods that this object owns directly.
};

// InvalidArgument for a job kind whose pods cannot be found.
absl::StatusOr<PodQuery> QueryFor(const TargetSpec& target);

// The worker's number in its job, from the places where frameworks put it; -1 = not known.
int RankOf(const PodInfo& pod);

// One target per pod that should take part, by rank and name. Pods that have ended are left out;
// pods that cannot take part stay in, with the outcome that says why: a capture that silently left
// them out would look complete. Names that were asked for and have no pod are in it too.
std::vector<Target> SelectTargets(const TargetSpec& spec, const PodQuery& query,
                                  const std::vector<PodInfo>& pods);

}  // namespace strobe
