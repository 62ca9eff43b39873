// Determines how many workers a job of any kind should have. Reads only the few fields that define
// it from unstructured JSON, so every version of a kind with these fields is supported.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "operator/core/job_shape.h"
#include "operator/core/request.h"

namespace strobe::kube {

// The API location of a kind of job.
struct JobKind {
  std::string_view kind, group;
  // The versions to try in this order if the user names none, separated by commas.
  std::string_view versions;
  std::string_view plural;
};

// Null for a kind whose size is not known.
const JobKind* FindJobKind(std::string_view kind);

// The paths to try in order until one exists. Empty if `job.api_version` is not of the kind's own
// group, because users must not choose what the operator reads.
std::vector<std::string> JobPaths(const std::string& ns, const JobRef& job);

// Reads the size of a job; `unknown` has the reason if the object does not define it.
JobShape ParseJob(std::string_view kind, const nlohmann::json& object);

// The object that defines the size instead, such as a RayJob's cluster. Nothing if it is the job
// itself.
std::optional<JobRef> StandsFor(const JobRef& job, const nlohmann::json& object);

}  // namespace strobe::kube
