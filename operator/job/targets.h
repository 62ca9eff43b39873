// Selects the workers of a request from a list of pods, including workers that are missing. Pure.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/spec.h"
#include "operator/job/pod.h"
#include "operator/job/shape.h"
#include "operator/job/target_spec.h"

namespace strobe::job {

// How to find a request's pods.
struct PodQuery {
  std::string selector{};               // Label selector for the API server; may be empty.
  std::vector<std::string> names{};     // Only these pods; empty = any.
  std::optional<kube::JobRef> owner{};  // Only pods of this object, see OwnsPods; none = any.
  bool nothing = false;                 // No pods: the job does not say yet which are its own.
};

// InvalidArgument for a job whose pods cannot be found. `shape` is the shape of target.jobRef;
// while it is null, jobs whose pods belong to another object have none.
absl::StatusOr<PodQuery> QueryFor(const TargetSpec& target, const Shape* shape = nullptr);

struct Selection {
  // One target per worker that should take part, sorted by rank and name. Workers that are missing
  // or cannot take part are included, with the outcome that says why: if they were left out, an
  // incomplete capture would look complete. Pods that have ended are left out.
  std::vector<capture::Target> targets{};
  // How many workers the whole job should have, before target.workers chooses some of them; none =
  // not known.
  std::optional<std::size_t> expected{};
  std::string not_known{};  // Why `expected` is not known; empty when it is.
  std::size_t present = 0;  // Workers of the whole job that have a pod.
  bool suspended = false;   // The job should have no pods for now.
  // The job, as kind/name: target.jobRef or, without one, the object that owns all of the pods.
  // Empty if there is none.
  std::string job{};

  // Targets that can be asked to record; see Target::usable.
  std::size_t usable() const;
  // Targets that may become usable with time: their pod or its address is not there yet.
  std::size_t may_come() const;
};

// `query` is QueryFor(spec), and `pods` are all pods that it finds. `shape` is the shape of
// target.jobRef, or null without one.
Selection SelectTargets(const TargetSpec& spec, const PodQuery& query,
                        const std::vector<PodInfo>& pods, const Shape* shape = nullptr);

// How many workers there are, human-readable: "14/16 workers are present".
std::string CountWords(const Selection& selection);

}  // namespace strobe::job
