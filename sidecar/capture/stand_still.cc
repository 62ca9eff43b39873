#include "sidecar/capture/stand_still.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace strobe::session {
namespace {

// A program may tell anything, and a rule may name any number.
constexpr Nanos kLongestStandStill = std::chrono::hours(24);
constexpr std::int64_t kLongestStepNs = 3'600'000'000'000, kMostUsualSteps = 1000;

std::int64_t LastMark(const v1::StepPace& pace) {
  return std::max(pace.began_ns(), pace.ended_ns());
}

}  // namespace

StandStillLimits LimitsOf(const v1::SignRule& rule) {
  if (rule.kind() == v1::SIGN_NO_STEP)
    return {.at_least = Nanos{rule.duration_ns()}, .usual_steps = 0};
  StandStillLimits limits;
  if (rule.duration_ns() > 0) limits.at_least = Nanos{rule.duration_ns()};
  if (rule.steps() > 0) limits.usual_steps = rule.steps();
  return limits;
}

Nanos PatienceOf(const StandStillLimits& limits, std::int64_t usual_step_ns) {
  const std::int64_t steps = std::clamp<std::int64_t>(limits.usual_steps, 0, kMostUsualSteps);
  return std::max(limits.at_least, Nanos{std::min(usual_step_ns, kLongestStepNs) * steps});
}

std::vector<StandStill> FindStandStills(std::span<const v1::StepPace> told, WallTime now,
                                        const StandStillLimits& limits) {
  // During an evaluation, the training loop of a process rests.
  std::map<std::string_view, const v1::StepPace*> newest;  // By process.
  for (const v1::StepPace& pace : told) {
    const v1::StepPace*& last = newest[pace.process()];
    if (last == nullptr || LastMark(*last) < LastMark(pace)) last = &pace;
  }
  std::vector<StandStill> found;
  for (const auto& [process, pace] : newest) {
    if (pace->period_ns() <= 0) continue;
    if (LastMark(*pace) > ToUnixNanos(now - PatienceOf(limits, pace->period_ns()))) continue;
    found.push_back({.process = pace->process(),
                     .loop = pace->loop(),
                     .since = std::max(FromUnixNanos(LastMark(*pace)), now - kLongestStandStill),
                     .usual_step_ns = std::min(pace->period_ns(), kLongestStepNs)});
  }
  return found;
}

v1::Stall StallOf(std::span<const v1::StepPace> told, WallTime now) {
  v1::Stall stall;
  const std::vector<StandStill> found = FindStandStills(told, now);
  const auto longest =
      std::min_element(found.begin(), found.end(),
                       [](const StandStill& a, const StandStill& b) { return a.since < b.since; });
  if (longest == found.end()) return stall;
  stall.set_stalled(true);
  stall.set_since_ns(ToUnixNanos(longest->since));
  stall.set_usual_step_ns(longest->usual_step_ns);
  return stall;
}

}  // namespace strobe::session
