// What a worker's answer to preflight means for the attempt. Pure.
#pragma once
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "capture/ports.h"
#include "capture/spec.h"

namespace strobe::capture {

// The attempt that the worker was asked for. The references must outlive the call.
struct PreflightQuestion {
  const Spec& spec;
  const std::string& capture_id;
  const std::string& run;
  // On the clock by which the attempt plans; see AttemptState::Now.
  WallTime now{};
  std::optional<WallTime> requested_start{};  // That of Spec::at.
};

struct PreflightJudgement {
  enum class Kind {
    kReady,    // The worker can be sent a plan.
    kAdopted,  // It carries out this very capture, for an operator that was here before us.
    kUnable,   // It cannot record, or not yet: OutcomeInfo::waitable.
  };
  Kind kind = Kind::kUnable;
  // Why the worker is unable; kUnknown and empty otherwise.
  Outcome outcome = Outcome::kUnknown;
  std::string message{};
};

// `answer` is what Worker::Check returned for `target`.
PreflightJudgement JudgePreflight(const PreflightQuestion& question, const Target& target,
                                  const absl::StatusOr<Preflight>& answer);

// Whether a profiler server answers in the worker's trainer.
bool HasFramework(const v1::DescribeResponse& description);

// The outcome of a worker whose sidecar answered Check or Arm with the error `status`.
Outcome OutcomeOfFailedCall(const absl::Status& status);

}  // namespace strobe::capture
