// What the workers of a capture do: of a service prefill and decode, of a job trainer and rollout.
// A worker's identity is its role, its group and its rank: a service has a rank 0 for each engine,
// and a pod may hold a trainer and a server with ranks of their own. Pure.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "capture/attempt_result.h"
#include "capture/spec.h"

namespace strobe::capture {

struct RoleCount {
  std::size_t there = 0;    // Workers, or pods, with the role.
  std::size_t counted = 0;  // How many of them count for what is asked.
};
using RoleCounts = std::map<std::string, RoleCount>;

// How many of the role's `there` must count; at least 1.
std::size_t WantedOf(const RoleWanted& role, std::size_t there);

// The first of the spec's roles of which too few are counted. Null if enough are of each, or if the
// spec has no roles.
const RoleWanted* TooFewOf(const Spec& spec, const RoleCounts& counts);

// Whether two of the workers have different roles. Their steps have nothing to do with each other.
bool RolesDiffer(const std::vector<WorkerResult>& workers);

// Gives workers without a role the one that their processes say: an inference server knows it from
// its configuration, and an actor of a framework for RL by its class.
void TakeProcessRoles(std::vector<WorkerResult>& workers);

// Gives roles to inference servers for which nobody says one, from what they did while they were
// recorded: if some of them only prefilled, and all others only decoded. A server that did both may
// do only one of them in the next second, so that nothing is concluded then.
void ObserveRoles(std::vector<WorkerResult>& workers);

// Sets each worker's group. Workers of one role whose ranks differ are one group without a name.
// Where ranks are equal, workers whose processes tell jobs of different sizes are apart ("world
// 8"), and then, where ranks are still equal, those of different pods ("vllm-0"), and engines of
// one pod ("vllm-0#2").
void AssignGroups(std::vector<WorkerResult>& workers);

}  // namespace strobe::capture
