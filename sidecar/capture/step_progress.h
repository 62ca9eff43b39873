// Where the processes of a worker are, relative to the training steps that a plan asks for. Pure.
#pragma once
#include <chrono>
#include <optional>
#include <span>
#include <string_view>

#include "common/base/clock.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

struct StepProgress {
  std::size_t processes = 0;  // How many tell steps of the plan's loop.
  bool begun = false;         // One of them has begun the first step, or a later one.
  bool finished = false;      // All of them have ended the last step; false without processes.
  // When the first step may begin, if each step took kFast of its usual time; and when the last one
  // may end, if each took kSlow of it. `now` where no pace is known.
  WallTime soonest{}, latest{};
  // When the first step begins at the earliest; see kFastestPace.
  WallTime earliest{};
};
// For a plan with steps, sources are asked this much earlier than they need, because the first step
// may come earlier than expected; see kFastestPace.
inline constexpr Nanos kStepsMayHurry = std::chrono::seconds(1);
inline constexpr double kFast = 0.75, kSlow = 1.5;

// Programs tell the names of their loops cut to so many bytes.
inline constexpr std::size_t kReportedLoopBytes = 48;
// Whether an annotation with this name is of the loop that programs told.
bool IsLoop(std::string_view name, std::string_view told);

// `told` is what Source::Steps returned at `now`.
StepProgress ProgressOf(const v1::CapturePlan& plan, std::span<const v1::StepPace> told,
                        WallTime now);

}  // namespace strobe::session
