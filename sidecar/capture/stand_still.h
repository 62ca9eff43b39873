// Which processes stand still, by the training steps that they tell. Pure.
#pragma once
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "strobe/v1/signs.pb.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// A process stands still if its last step began, or ended, longer ago than both.
struct StandStillLimits {
  Nanos at_least = std::chrono::seconds(3);
  std::int64_t usual_steps = 10;
};

// What a rule of SIGN_STALLED or SIGN_NO_STEP asks for.
StandStillLimits LimitsOf(const v1::SignRule& rule);

// For how long a process may show no progress if a step usually takes `usual_step_ns`.
Nanos PatienceOf(const StandStillLimits& limits, std::int64_t usual_step_ns);

struct StandStill {
  std::string process{}, loop{};  // As in StepPace; the loop that told a step last.
  WallTime since{};
  std::int64_t usual_step_ns = 0;
};

// `told` is what Source::Steps returned at `now`. A process whose usual step is not known yet is
// left out, because its first steps compile.
std::vector<StandStill> FindStandStills(std::span<const v1::StepPace> told, WallTime now,
                                        const StandStillLimits& limits = {});

// The worker's answer in Describe: that of the process that has stood still longest.
v1::Stall StallOf(std::span<const v1::StepPace> told, WallTime now);

}  // namespace strobe::session
