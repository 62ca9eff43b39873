#include "sidecar/capture/harm.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::session {
namespace {

// A single slow step may be a checkpoint; this many slow steps in a row mean that the job is slow.
constexpr std::size_t kSteps = 3;
constexpr std::size_t kMaxSteps = 64;  // Steps remembered per loop.
constexpr std::size_t kMaxLoops = 64;

template <typename Range>
Nanos Median(const Range& range) {
  std::vector<Nanos> sorted(range.begin(), range.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

void Remember(Nanos step, std::deque<Nanos>& steps) {
  steps.push_back(step);
  if (steps.size() > kMaxSteps) steps.pop_front();
}

}  // namespace

void HarmRule::Recording(MonoTime since) {
  recording_ = true;
  since_ = last_end_ = since;
  Nanos most{};
  for (const auto& [loop, steps] : before_) {
    const Nanos all = std::accumulate(steps.begin(), steps.end(), Nanos{});
    if (steps.size() < kSteps || all <= most) continue;
    most = all;
    loop_ = loop;
    usual_ = Median(steps);
  }
}

std::optional<Harm> HarmRule::Judge(const JobSigns& signs, MonoTime now) {
  if (std::optional<Harm> harm = JudgeMemory(signs)) return harm;
  return JudgeSteps(signs, now);
}

std::optional<Harm> HarmRule::JudgeMemory(const JobSigns& signs) {
  if (signs.memory_limit == 0) return std::nullopt;
  // A program may tell anything.
  constexpr double kMaxPercent = 1e6;
  const auto percent = static_cast<std::uint32_t>(std::min(
      100.0 * static_cast<double>(signs.memory_used) / static_cast<double>(signs.memory_limit),
      kMaxPercent));
  memory_peak_ = std::max(memory_peak_, percent);
  if (limits_.memory_percent == 0 || percent < limits_.memory_percent) return std::nullopt;
  return Harm{.message = StrCat("the trainer uses ", percent, "% of its memory limit of ",
                                signs.memory_limit >> 20, " MiB; captures end at ",
                                limits_.memory_percent, "%")};
}

std::optional<Harm> HarmRule::JudgeSteps(const JobSigns& signs, MonoTime now) {
  for (const JobStep& step : signs.steps) {
    if (since_ == MonoTime{}) {
      if (before_.contains(step.loop) || before_.size() < kMaxLoops)
        Remember(step.end - step.begin, before_[step.loop]);
    } else if (recording_ && step.loop == loop_) {
      last_end_ = std::max(last_end_, step.end);
      if (step.begin >= since_) Remember(step.end - step.begin, during_);
    }
  }
  if (!recording_ || usual_ == Nanos{} || limits_.slowdown_percent == 0) return std::nullopt;
  if (signs.steps_missing) last_end_ = std::max(last_end_, now);
  const Nanos allowed = usual_ + usual_ * limits_.slowdown_percent / 100;
  const auto harm = [&](Nanos seen, std::string_view what) {
    return Harm{.message = StrCat("steps of ", loop_, " took ", FormatDuration(usual_),
                                  " before and ", what, FormatDuration(seen),
                                  " while recorded; captures end when they are ",
                                  limits_.slowdown_percent, "% slower"),
                .keep = true};
  };
  if (during_.size() >= kSteps) {
    const Nanos now_usual = Median(std::vector<Nanos>(during_.end() - kSteps, during_.end()));
    if (now_usual > allowed) return harm(now_usual, "");
  }
  // A step that does not end is slow as well. It may take as long as three steps at the limit.
  if (now - last_end_ > static_cast<int>(kSteps) * allowed)
    return harm(now - last_end_, "none has ended for ");
  return std::nullopt;
}

v1::JobEffect HarmRule::effect() const {
  v1::JobEffect effect;
  effect.set_memory_percent(memory_peak_);
  effect.set_step_before_ns(usual_.count());
  if (!during_.empty()) effect.set_step_during_ns(Median(during_).count());
  return effect;
}

}  // namespace strobe::session
