// Limits on what sidecars answer: valid text of bounded length, numbers in ranges that cannot
// overflow, known outcomes. A sidecar runs in a tenant's pod and is not trusted, so nothing that it
// sends may crash the operator or fill its memory. grpc_worker applies the limits to every
// answer as it arrives. Pure.
#pragma once
#include <cstddef>

#include "absl/status/status.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::capture {

// gRPC refuses a larger answer before it is parsed. The largest regular answer is a digest, at
// most 255 KiB.
inline constexpr std::size_t kMaxAnswerBytes = 256 << 10;
// An answer with evidence may be larger. One worker is asked for no more than this, so that its
// files fit into one message on their way back to its sidecar, too.
inline constexpr std::size_t kMaxEvidenceBytes = 8u << 20;
inline constexpr std::size_t kMaxEvidenceAnswerBytes = kMaxEvidenceBytes + (1u << 20);

// A worker's times lie between 1970 and 2087, and its clock differs from the operator's by 63 years
// at most: sums and differences of any two of these numbers fit into 64 bits.
inline constexpr std::int64_t kMaxTimeNs = 3'700'000'000'000'000'000;
inline constexpr std::int64_t kMaxOffsetNs = 2'000'000'000'000'000'000;

// Each cuts texts and lists to their limits, makes texts valid UTF-8, and moves numbers into range.
// An outcome that this operator does not know becomes VersionMismatch.
void BoundAnswer(v1::Report& report);
void BoundAnswer(v1::DescribeResponse& response);
void BoundAnswer(v1::ArmResponse& response);
void BoundAnswer(v1::CancelResponse& response);
void BoundAnswer(v1::PublishResponse& response);
void BoundAnswer(v1::ReadDigestResponse& response);
void BoundAnswer(v1::ReclaimResponse& response);
void BoundAnswer(v1::ReadEvidenceResponse& response);
void BoundAnswer(v1::ClockPong& pong);

// Bounds the error of a failed call, whose message comes from the worker or from a proxy.
absl::Status BoundError(const absl::Status& status);

}  // namespace strobe::capture
