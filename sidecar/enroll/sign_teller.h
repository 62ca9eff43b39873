// Tells the operator the signs that a sidecar finds, and hears which ones to look for.
#pragma once
#include <deque>
#include <span>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "sidecar/enroll/operator_channel.h"
#include "strobe/v1/signs.pb.h"

namespace strobe::enroll {

// Only one thread may use it.
class SignTeller {
 public:
  // `clock` and `identity` outlive it.
  SignTeller(const Clock& clock, OperatorAddress address, const LiveIdentity& identity, OwnPod pod);

  // Adds a sign that began at `began`. The next call tells it; after a failed call it is told
  // again, for a few minutes. If there are too many signs, the oldest is left out.
  void Add(v1::Sign sign, MonoTime began);
  // When to call Tell next.
  MonoTime next() const { return next_; }
  // Calls the operator, for at most kTellTimeout. On failure `next` is later, and what there is to
  // tell is kept.
  absl::StatusOr<v1::TellSignsResponse> Tell(std::span<const v1::StepTime> step_times);

  static constexpr Nanos kTellTimeout = std::chrono::seconds(5);

 private:
  struct Untold {
    v1::Sign sign{};
    MonoTime began{}, found{};
  };

  absl::StatusOr<v1::TellSignsResponse> Call(std::span<const v1::StepTime> step_times);

  const Clock& clock_;
  const OperatorAddress address_;
  const LiveIdentity& identity_;
  const OwnPod pod_;
  std::deque<Untold> untold_;
  bool by_name_ = false;
  MonoTime next_;
  Nanos retry_;
};

}  // namespace strobe::enroll
