// Which workers a request means, and which of them are not there. Pure: pods in, targets out.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/core/capture_spec.h"
#include "operator/core/job_shape.h"
#include "operator/core/pod.h"
#include "operator/core/request.h"

namespace strobe {

// How to find a job's pods.
struct PodQuery {
  std::string selector{};  // Label selector for the API server; may be empty.
  std::vector<std::string> names{};
  std::optional<JobRef> owner{};  // Keep only pods that this object owns directly.
};

// InvalidArgument for a job whose pods cannot be found.
absl::StatusOr<PodQuery> QueryFor(const TargetSpec& target);

struct Selection {
  // One per worker that should take part, by rank and name. Pods that have ended are left out; what
  // cannot take part stays in, with the outcome that says why: a capture that silently left it out
  // would look complete. So do workers that should be there and are not.
  std::vector<Target> targets{};
  // Workers that the whole job should have, before target.workers chooses among them; nothing when
  // that is not known,
  std::optional<std::size_t> expected{};
  std::string not_known{};  // for this reason.
  std::size_t present = 0;  // Workers of the whole job that have a pod.
  bool suspended = false;   // The job is not to have pods for now.

  // Can record, as far as is known.
  std::size_t usable() const;
  // May come to be usable by waiting: pods that are not there yet, or have no address yet.
  std::size_t may_come() const;
};

// `shape` is that of target.jobRef; null without one.
Selection SelectTargets(const TargetSpec& spec, const PodQuery& query,
                        const std::vector<PodInfo>& pods, const JobShape* shape = nullptr);

// "14/16 workers are there", or what else there is to say of how many; for people.
std::string CountWords(const Selection& selection);

}  // namespace strobe
