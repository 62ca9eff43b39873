// What sidecars answer, as far as the operator takes it: valid text of bounded length, numbers with
// which it can be calculated, outcomes that it knows. A sidecar shares its pod with code of a
// tenant's, so nothing that it sends may end the operator or fill its memory. Applied where an
// answer arrives. Pure.
#pragma once
#include <cstddef>

#include "absl/status/status.h"
#include "strobe/v1/worker.pb.h"

namespace strobe {

// A larger answer is refused before it is parsed. The largest that a sidecar means to send is a
// report of 64 processes, about 70 KiB.
inline constexpr std::size_t kMaxAnswerBytes = 256 << 10;

// Times of a worker lie between 1970 and 2087, and clocks differ by at most 63 years: sums and
// differences of any two of them fit into 64 bits.
inline constexpr std::int64_t kLatestNs = 3'700'000'000'000'000'000;
inline constexpr std::int64_t kMaxOffsetNs = 2'000'000'000'000'000'000;

void BoundAnswer(v1::Report& report);
void BoundAnswer(v1::DescribeResponse& response);
void BoundAnswer(v1::ArmResponse& response);
void BoundAnswer(v1::CancelResponse& response);
void BoundAnswer(v1::PublishResponse& response);
void BoundAnswer(v1::ReclaimResponse& response);
void BoundAnswer(v1::ClockPong& pong);

// Of a call that failed: the words came from the worker, or from a proxy on the way.
absl::Status BoundError(const absl::Status& status);

}  // namespace strobe
