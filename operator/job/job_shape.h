// How many workers a job should have, according to the job's own object. Plain values.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/job_kinds.h"

namespace strobe::job {

// The most workers that a capture can have. A job with more is treated as one of unknown size.
inline constexpr std::size_t kMaxWorkers = 10'000;

struct JobShape {
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
inline std::optional<std::size_t> WorkersOf(const JobShape& shape) {
  if (!shape.unknown.empty()) return std::nullopt;
  std::size_t workers = 0;
  for (const JobShape::Role& role : shape.roles) {
    if (!role.trains) continue;
    if (role.pods_per_replica > 0 &&
        role.replicas > (kMaxWorkers - workers) / role.pods_per_replica)
      return std::nullopt;
    workers += role.replicas * role.pods_per_replica;
  }
  return workers;
}

}  // namespace strobe::job
