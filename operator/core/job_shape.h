// How many workers a job should have, as the job's own object says. Plain values.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace strobe {

// More workers than a capture can have. A job that says more is taken as one that says nothing.
inline constexpr std::size_t kMaxWorkers = 10'000;

struct JobShape {
  struct Role {
    std::string name{};  // Such as a replicated job's or a replica type's; may be empty.
    std::size_t replicas = 0, pods_per_replica = 1;
    bool trains = true;  // False: it only coordinates, such as MPI's launcher or a Ray head.
  };
  std::vector<Role> roles{};  // In the job's own order, which is that of its ranks.
  // The job is not to have pods for now: suspended, queued, or scaled to 0.
  bool suspended = false;
  // The numbers are of pods that are still to run; else those that have ended well count too.
  bool of_running_pods = false;
  std::string unknown{};  // Why nothing is known of the job; empty when the rest counts.
};

// Pods that train; nothing when the job does not say, or says more than kMaxWorkers.
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

}  // namespace strobe
