// Jobs of all kinds to how many workers they should have. Unstructured: only the few fields that
// say it are looked at, so that every version of a kind that has them is understood.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "operator/core/job_shape.h"
#include "operator/core/request.h"

namespace strobe::kube {

// Where a kind of job is found.
struct JobKind {
  std::string_view kind, group;
  std::string_view versions;  // To try, in this order, when the user names none; with commas.
  std::string_view plural;
};

// Null for a kind of whose size nobody knows.
const JobKind* FindJobKind(std::string_view kind);

// Paths to try one after the other until one is there. Empty when `job.api_version` is not of the
// kind's own group: users do not choose what the operator reads.
std::vector<std::string> JobPaths(const std::string& space, const JobRef& job);

// What an object of that kind says of itself; `unknown` when it does not say it.
JobShape ParseJob(std::string_view kind, const nlohmann::json& object);

// The object that says it instead: a RayJob's cluster. Nothing when it is the job's own.
std::optional<JobRef> StandsFor(const JobRef& job, const nlohmann::json& object);

}  // namespace strobe::kube
