#include "operator/core/clock_estimate.h"

#include <algorithm>

namespace strobe {
namespace {

// Divides first: a worker may tell any time, and the product would overflow after three years.
Nanos DriftOver(Nanos time) { return std::chrono::abs(time) / (1'000'000 / kMaxDriftPerMillion); }

}  // namespace

ClockOffset OffsetAt(WallTime when, const ClockOffset& before,
                     const std::optional<ClockOffset>& after) {
  ClockOffset then{.at = when, .offset = before.offset};
  if (!before.error) return then;
  then.error = *before.error + DriftOver(when - before.at);
  if (!after || !after->error || after->at <= before.at) return then;
  const Nanos change = after->offset - before.offset;
  const Nanos between = std::max(*before.error, *after->error) + std::chrono::abs(change);
  // The second measurement may be much worse, as on a machine that thousands of workers answer.
  if (between >= *then.error) return then;
  const double part = std::clamp(static_cast<double>((when - before.at).count()) /
                                     static_cast<double>((after->at - before.at).count()),
                                 0.0, 1.0);
  then.offset += Nanos{static_cast<std::int64_t>(static_cast<double>(change.count()) * part)};
  then.error = between;
  return then;
}

}  // namespace strobe
