// How far a capture attempt has come, as others see it: the reconciler, the status, the command.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/attempt_result.h"
#include "capture/start_plan.h"
#include "common/base/clock.h"

namespace strobe::capture {

// The workers in one state: "Waiting" for their answer to preflight, "Ready", "Arming", "Armed",
// "Recording", "Collecting", "Uploading", or the name of the outcome with which they ended.
struct WorkersInState {
  std::string state{};
  std::size_t workers = 0;
  std::vector<std::string> names{};  // In the order of the targets; at most kMaxNamesInState.

  bool operator==(const WorkersInState&) const = default;
};
inline constexpr std::size_t kMaxNamesInState = 16;

// An attempt passes through the phases in this order; it may skip some.
enum class Phase { kPreflight, kArming, kDelay, kRecording, kCollecting, kPublishing, kDone };
// As in metrics and in the command's progress line: "preflight", "arm", "delay", "record", ...
std::string_view Name(Phase phase);

struct AttemptProgress {
  Phase phase = Phase::kPreflight;
  std::size_t matched = 0;                        // Targets of the attempt.
  std::size_t armed = 0;                          // Workers that accepted a plan, ended or not.
  std::size_t finished = 0;                       // Workers whose outcome is final.
  std::string workers_note{};                     // See Spec.
  std::optional<std::size_t> expected_workers{};  // See Spec.
  std::optional<StartPlan> plan{};                // Set once there is a start time.
  std::string waits_for{};                        // Preflight: which workers are not ready, why.
  std::vector<WorkersInState> states{};           // What the workers do; refreshed now and then.
  bool wants_evidence = false;                    // Attempt::TellEvidence is awaited.
  std::shared_ptr<const StallReport> stall{};     // Set once evidence was judged, null before.
  std::map<Phase, Nanos> took{};                  // Duration of each phase that is over.
  std::shared_ptr<const AttemptResult> result{};  // Set in Phase::kDone, null before.
};

}  // namespace strobe::capture
