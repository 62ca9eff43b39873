#include "capture/worker/clock_probe.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "capture/answer_limits.h"

namespace strobe::capture {
namespace {

constexpr int kPings = 8;
// On a slow link this many round trips are enough, so that a capture does not wait for all of them.
constexpr int kMinPings = 3;
constexpr Nanos kEnoughTime = std::chrono::milliseconds(250);
// A longer travel time is a lie or a clock that was set, not a network.
constexpr Nanos kMaxTravel = std::chrono::hours(1);

// One ProbeClock stream. Owns itself; the deleter deletes it when the stream has ended.
class Prober final : public grpc::ClientBidiReactor<v1::ClockPing, v1::ClockPong> {
 public:
  Prober(const Clock& clock, DeferredDeleter& deleter, std::shared_ptr<v1::Worker::Stub> stub,
         Nanos timeout, std::function<void(absl::StatusOr<ClockEstimate>)> done)
      : clock_(clock), deleter_(deleter), stub_(std::move(stub)), done_(std::move(done)) {
    deleter_.Announce();
    context_.set_deadline(DeadlineIn(timeout));
    stub_->async()->ProbeClock(&context_, this);
    Ping();
    StartCall();
  }

  void OnWriteDone(bool ok) override {
    if (ok) StartRead(&pong_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    BoundAnswer(pong_);
    RoundTrip& trip = trips_.back();
    trip.back = clock_.WallNow();
    trip.received = FromUnixNanos(pong_.received_ns());
    trip.answered = FromUnixNanos(pong_.sent_ns());
    trip.wall_less_monotonic = Nanos{pong_.wall_less_monotonic_ns()};
    ++complete_;
    const bool enough = complete_ >= kMinPings && trip.back - trips_.front().sent > kEnoughTime;
    if (complete_ < kPings && !enough)
      Ping();
    else
      StartWritesDone();
  }
  void OnDone(const grpc::Status& status) override {
    trips_.resize(static_cast<std::size_t>(complete_));
    const std::optional<ClockEstimate> estimate = EstimateClock(trips_);
    if (estimate)
      done_(*estimate);
    else if (!status.ok())
      done_(FromGrpc(status));
    else
      done_(absl::UnavailableError("the clock was stepped while it was measured"));
    deleter_.Delete(this);
  }

 private:
  void Ping() {
    ping_.set_sequence(static_cast<std::uint32_t>(trips_.size()));
    RoundTrip trip;
    trip.sent = clock_.WallNow();
    trips_.push_back(trip);
    StartWrite(&ping_);
  }

  const Clock& clock_;
  DeferredDeleter& deleter_;
  const std::shared_ptr<v1::Worker::Stub> stub_;
  const std::function<void(absl::StatusOr<ClockEstimate>)> done_;
  grpc::ClientContext context_;
  v1::ClockPing ping_;
  v1::ClockPong pong_;
  std::vector<RoundTrip> trips_;
  int complete_ = 0;
};

}  // namespace

std::optional<ClockEstimate> EstimateClock(std::span<const RoundTrip> trips) {
  std::optional<ClockEstimate> best;
  for (const RoundTrip& trip : trips) {
    const Nanos at_worker = trip.answered - trip.received;
    const Nanos travel = (trip.back - trip.sent) - at_worker;
    // A worker cannot answer before it was asked; such a trip tells nothing.
    if (at_worker < Nanos{0} || travel < Nanos{0} || travel > kMaxTravel) continue;
    // How the travel time divides between the two directions is not known. At worst all of it was
    // spent in one direction, so half of it bounds the error.
    const Nanos error = travel / 2 + Nanos{1};
    if (best && best->error <= error) continue;
    best = ClockEstimate{.at = trip.back,
                         .offset = ((trip.received - trip.sent) + (trip.answered - trip.back)) / 2,
                         .error = error,
                         .wall_less_monotonic = trip.wall_less_monotonic};
  }
  return best;
}

void ProbeClock(const Clock& clock, DeferredDeleter& deleter,
                std::shared_ptr<v1::Worker::Stub> stub, Nanos timeout,
                std::function<void(absl::StatusOr<ClockEstimate>)> done) {
  new Prober(clock, deleter, std::move(stub), timeout, std::move(done));
}

}  // namespace strobe::capture
