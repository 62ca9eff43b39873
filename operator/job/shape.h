// How many workers a job should have, according to the job's own object. Plain values.
#pragma once
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/base/job_kinds.h"

namespace strobe::job {

// The most workers that a capture can have. A job with more is treated as one of unknown size.
inline constexpr std::size_t kMaxWorkers = 10'000;

struct Shape {
  struct Role {
    std::string name{};  // Name of the replicated job or replica type; may be empty.
    std::size_t replicas = 0, pods_per_replica = 1;
    bool trains = true;  // False for a role that only coordinates: MPI's launcher, a Ray head.
  };
  std::vector<Role> roles{};  // In the job's own order, which is also the order of ranks.
  // The job should have no pods for now: it is suspended, queued, or scaled to 0.
  bool suspended = false;
  // Whether pods that have succeeded are no longer included in the numbers above.
  bool of_running_pods = false;
  std::string unknown{};  // Why no size is known; then the fields above mean nothing.
  // The object that the pods belong to, if it is another one, such as a RayJob's cluster.
  std::optional<kube::JobRef> pods_of{};
  std::vector<std::string> pods{};  // The pods' names, if the job itself lists them.
};

// How many pods train; none when that is not known, or more than kMaxWorkers.
inline std::optional<std::size_t> WorkersOf(const Shape& shape) {
  if (!shape.unknown.empty()) return std::nullopt;
  std::size_t workers = 0;
  for (const Shape::Role& role : shape.roles) {
    if (!role.trains) continue;
    if (role.pods_per_replica > 0 &&
        role.replicas > (kMaxWorkers - workers) / role.pods_per_replica)
      return std::nullopt;
    workers += role.replicas * role.pods_per_replica;
  }
  return workers;
}

// The paths to try in order until one exists. Empty for a kind that is not known, or of another
// group: users must not choose what the operator reads.
std::vector<std::string> JobPaths(const std::string& ns, const kube::JobRef& job);

// Reads the size of a job; `unknown` has the reason if the object does not define it.
Shape ParseJob(const kube::JobRef& job, const nlohmann::json& object);

// The object that has the pods and defines their number in place of the job: a RayJob's cluster,
// the job that a Kueue Workload queues. Nothing if it is the job itself, or not known (yet).
std::optional<kube::JobRef> StandsFor(const kube::JobRef& job, const nlohmann::json& object);

// Reads the object at an API path.
using ObjectReader = std::function<absl::StatusOr<nlohmann::json>(const std::string& path)>;

// The shape of a job, found through the objects that it stands for. What will stay unknown, for
// example because there is no such object, is told in Shape::unknown; an error is worth another
// try.
absl::StatusOr<Shape> DescribeJob(const std::string& ns, const kube::JobRef& job,
                                  const ObjectReader& read);

}  // namespace strobe::job
