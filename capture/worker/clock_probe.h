// Measures the offset of a worker's clock over a ProbeClock stream, as NTP does.
#pragma once
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/answer_limits.h"
#include "capture/clock_estimate.h"
#include "capture/worker/deferred_deleter.h"
#include "common/base/clock.h"
#include "strobe/v1/worker.grpc.pb.h"

namespace strobe::capture {

// Both use the same numbers for codes. The message may be any bytes that the peer sent, so it is
// limited like an answer.
inline absl::Status FromGrpc(const grpc::Status& status) {
  return BoundError(
      absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()));
}

// The four clock readings of one round trip.
struct RoundTrip {
  WallTime sent{}, back{};          // On the operator's clock.
  WallTime received{}, answered{};  // On the worker's clock.
  Nanos wall_less_monotonic{};
};

// The estimate of the round trip with the shortest travel time, which bounds the offset best. None
// when there is no plausible trip, for example because a clock was set during each of them. Pure.
std::optional<ClockEstimate> EstimateClock(std::span<const RoundTrip> trips);

// Measures up to eight round trips, one after the other; on a slow link at least three. `done` is
// called once, from a gRPC thread: with the best estimate of the trips that were complete within
// `timeout`, else with an error. The clock and the deleter must outlive the call.
void ProbeClock(const Clock& clock, DeferredDeleter& deleter,
                std::shared_ptr<v1::Worker::Stub> stub, Nanos timeout,
                std::function<void(absl::StatusOr<ClockEstimate>)> done);

}  // namespace strobe::capture
