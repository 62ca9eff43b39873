// One worker's clock against ours, over a ProbeClock stream.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "operator/workers/undertaker.h"
#include "strobe/v1/worker.grpc.pb.h"

namespace strobe {

struct ClockEstimate {
  Nanos offset{};  // Worker clock minus ours, true within +-error.
  Nanos error{};
  Nanos wall_less_monotonic{};  // Of the worker at that moment; 0 = not known.
};

// Four readings of one round trip: sent and back on our clock, received and answered on theirs.
struct RoundTrip {
  WallTime sent{}, back{};
  WallTime received{}, answered{};
  Nanos wall_less_monotonic{};
};

// The smallest round trip bounds the offset best, whatever the others suffered (pure). Nothing for
// no trips, or when every trip runs backwards because a clock was stepped.
std::optional<ClockEstimate> EstimateClock(std::span<const RoundTrip> trips);

// Pings a dozen times, one after the other. `done` comes once, from a gRPC thread.
void ProbeClock(const Clock& clock, Undertaker& undertaker, std::shared_ptr<v1::Worker::Stub> stub,
                Nanos timeout, std::function<void(absl::StatusOr<ClockEstimate>)> done);

}  // namespace strobe
