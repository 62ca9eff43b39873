// Finds the pods of a request's target through the Kubernetes API.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "operator/request/ports.h"

namespace strobe::request {

struct TargetPods {
  job::PodQuery query{};
  std::optional<job::Shape> shape{};  // The shape of target.jobRef; none without one.
  std::vector<job::PodInfo> pods{};
};

// `patient`: a job that cannot be read now is an error; else it counts as one of unknown size.
// InvalidArgument for a job whose pods cannot be found.
absl::StatusOr<TargetPods> FindTargetPods(Cluster& cluster, const std::string& ns,
                                          const job::TargetSpec& target, bool patient);

// Like FindTargetPods, but reads the job's shape only if its pods cannot be found without it, which
// saves a request.
absl::StatusOr<TargetPods> FindPodsOnly(Cluster& cluster, const std::string& ns,
                                        const job::TargetSpec& target);

}  // namespace strobe::request
