// Determines how many workers a job of any kind should have. Reads only the few fields that define
// it from unstructured JSON, so every version of a kind with these fields is supported.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/base/job_kinds.h"
#include "operator/job/job_shape.h"

namespace strobe::job {

// The paths to try in order until one exists. Empty for a kind that is not known, or of another
// group: users must not choose what the operator reads.
std::vector<std::string> JobPaths(const std::string& ns, const kube::JobRef& job);

// Reads the size of a job; `unknown` has the reason if the object does not define it.
JobShape ParseJob(const kube::JobRef& job, const nlohmann::json& object);

// The object that has the pods and defines their number in place of the job: a RayJob's cluster,
// the job that a Kueue Workload queues. Nothing if it is the job itself, or not known (yet).
std::optional<kube::JobRef> StandsFor(const kube::JobRef& job, const nlohmann::json& object);

// Reads the object at an API path.
using ObjectReader = std::function<absl::StatusOr<nlohmann::json>(const std::string& path)>;

// The shape of a job, found through the objects that it stands for. What will stay unknown, for
// example because there is no such object, is told in JobShape::unknown; an error is worth another
// try.
absl::StatusOr<JobShape> DescribeJob(const std::string& ns, const kube::JobRef& job,
                                     const ObjectReader& read);

}  // namespace strobe::job
