#include "capture/retry.h"

#include <algorithm>

#include "capture/roles.h"

namespace strobe::capture {

std::optional<Nanos> RetryAfter(const CaptureSpec& spec, const AttemptResult& result) {
  if (result.succeeded || result.cancelled || result.attempt >= spec.attempts) return std::nullopt;
  // The request asks how things are now, which a later attempt would not answer.
  if (spec.preflight_only) return std::nullopt;
  // A step that has passed does not come again.
  if (result.reason == kStepOutOfReach) return std::nullopt;
  // Another attempt can only succeed if enough workers may end well in it.
  std::size_t curable = 0;
  RoleCounts roles;
  for (const WorkerResult& worker : result.workers) {
    // The user did not cancel: the operator called this worker off because others were missing.
    const bool called_off = worker.outcome == Outcome::kCancelled;
    const std::size_t counted =
        Counts(worker, spec) || called_off || Describe(worker.outcome).retryable ? 1 : 0;
    curable += counted;
    RoleCount& role = roles[worker.target.role];
    ++role.there;
    role.counted += counted;
  }
  const std::size_t wanted = spec.min_workers == 0 ? result.workers.size() : spec.min_workers;
  if (curable < wanted || TooFewOf(spec, roles) != nullptr) return std::nullopt;
  return std::min<Nanos>(std::chrono::seconds(1) * (1 << std::min(result.attempt - 1, 5)),
                         kMaxRetryWait);
}

}  // namespace strobe::capture
