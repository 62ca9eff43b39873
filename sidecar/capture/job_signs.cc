#include "sidecar/capture/job_signs.h"

#include <algorithm>
#include <utility>

#include "common/base/quantile.h"
#include "common/base/strings.h"
#include "sidecar/capture/stand_still.h"

namespace strobe::session {
namespace {

constexpr std::size_t kMaxWatchedLoops = 64;
// The usual time of a loop is known after kWarmUp looks at which steps had ended. It is taken from
// the last kWindow such looks: nine minutes if steps take less than a second, more for longer
// steps.
constexpr std::size_t kWarmUp = 30, kWindow = 512;
// A loop counts as one that steps after this many looks at which its steps had ended.
constexpr std::size_t kStepsAtAll = 20;
constexpr std::size_t kMaxUntold = 64;
constexpr Nanos kMaxStep = std::chrono::hours(24);
// StepPace.period_ns is the median of this many steps.
constexpr int kMedianOf = 16;
// Slow steps must also take longer than this share of the last ones. This raises the limit of a
// rule at most by the factor kMaxRaised, because a job is often disturbed when it begins, while
// the window is short.
constexpr double kUsualShare = 0.95, kMaxRaised = 1.5;
// The first steps compile, so that a loop can stand still only after this many such looks.
constexpr std::size_t kStepsAreSettled = 5;
// After this many slow looks, the slow steps count as the usual ones.
constexpr std::size_t kUsualAgain = 300;
// If many steps that differ much lie between two looks, their median and their mean may be high by
// chance. A sign therefore needs at least kSlowLooks looks, and a look at which the mean exceeds
// the median by more than one part in kPausedPart counts as one step only.
constexpr int kSlowLooks = 6, kPausedPart = 4;
// Memory must be near its limit at kMemoryLooks looks, so that a moment is no sign. The sign is
// gone only when memory is kMemoryGone percentage points below the limit of the rule.
constexpr int kMemoryLooks = 3;
constexpr double kMemoryGone = 5;

template <typename Range>
std::int64_t Quantile(const Range& range, double share) {
  std::vector<std::int64_t> times(range.begin(), range.end());
  return QuantileOf(times, share);
}

template <typename Range>
std::int64_t MedianOf(const Range& range) {
  return Quantile(range, 0.5);
}

}  // namespace

bool JobSignRules::Watch::Saw(bool is_bad, int count, int needed, MonoTime began) {
  if (!is_bad) {
    bad = 0;
    good += count;
    if (good >= needed) found = false;
    return false;
  }
  if (bad == 0) since = began;
  good = 0;
  bad = std::min(bad + count, 1 << 20);
  return bad >= needed && !std::exchange(found, true);
}

void JobSignRules::Set(std::span<const v1::SignRule> rules) {
  rules_.assign(rules.begin(),
                rules.begin() + static_cast<std::ptrdiff_t>(std::min(rules.size(), kMaxSignRules)));
  const auto forget = [&](std::map<std::string, Watch>& watches) {
    std::erase_if(watches, [&](const auto& entry) {
      return std::none_of(rules_.begin(), rules_.end(),
                          [&](const v1::SignRule& rule) { return rule.id() == entry.first; });
    });
  };
  forget(memory_watches_);
  for (auto& [key, loop] : loops_) forget(loop.watches);
  if (rules_.empty()) loops_.clear();
}

bool JobSignRules::wants(v1::SignKind kind) const {
  return std::any_of(rules_.begin(), rules_.end(),
                     [&](const v1::SignRule& rule) { return rule.kind() == kind; });
}

std::vector<FoundSign> JobSignRules::Look(std::span<const v1::StepPace> told,
                                          std::optional<SeenMemory> memory, MonoTime mono,
                                          WallTime wall) {
  std::vector<FoundSign> found;
  for (auto& [key, loop] : loops_) loop.reported = false;
  for (const v1::StepPace& pace : told) {
    if (pace.number() < 0) continue;  // A program may tell anything.
    const std::string key = StrCat(pace.process(), "\n", pace.loop());
    const auto known = loops_.find(key);
    if (known == loops_.end() && loops_.size() >= kMaxWatchedLoops) continue;
    // Somebody may set the wall clock between two looks.
    const std::int64_t now_ns = ToUnixNanos(wall);
    const MonoTime began =
        mono - Nanos{now_ns - std::clamp(pace.began_ns(), now_ns - kMaxStep.count(), now_ns)};
    if (known == loops_.end()) {
      loops_.emplace(key, Loop{.name = pace.loop(),
                               .process = pace.process(),
                               .number = pace.number(),
                               .began = began,
                               .reported = true});
      continue;
    }
    Loop& loop = known->second;
    loop.reported = true;
    const std::optional<Steps> steps = Advance(loop, pace, began);
    if (!steps) continue;
    Remember(loop, *steps, JudgeSteps(loop, *steps, found));
  }
  std::erase_if(loops_, [](const auto& entry) { return !entry.second.reported; });  // It has ended.
  JudgePauses(mono, found);
  JudgeStandStills(told, mono, wall, found);
  if (memory) JudgeMemory(*memory, mono, found);
  if (found.size() > kMaxSigns) found.resize(kMaxSigns);
  return found;
}

// Uses the smaller of mean and median. A pause makes one step long, which raises the mean of a few
// steps; the median of the last steps reacts only after half of them.
std::optional<JobSignRules::Steps> JobSignRules::Advance(Loop& loop, const v1::StepPace& pace,
                                                         MonoTime began) {
  const std::int64_t numbers = pace.number() - loop.number;
  const MonoTime before = std::exchange(loop.began, began);
  loop.number = pace.number();
  if (numbers <= 0 || began <= before) return std::nullopt;  // None, or the loop began again.
  const int count = static_cast<int>(std::min<std::int64_t>(numbers, 1 << 20));
  const std::int64_t mean = (began - before).count() / numbers;
  if (count == 1) return Steps{.count = 1, .ns = mean, .began = before};
  const std::int64_t median = pace.period_ns() > 0 ? pace.period_ns() : mean;
  const std::int64_t ns = std::min(mean, median);
  return Steps{.count = count,
               .ns = ns,
               .paused = mean - median > median / kPausedPart,
               .began = began - Nanos{ns} * std::max(count, kMedianOf)};
}

bool JobSignRules::JudgeSteps(Loop& loop, const Steps& steps, std::vector<FoundSign>& found) {
  if (loop.usual.size() < kWarmUp || !wants(v1::SIGN_STEPS_SLOWER)) return false;
  const std::int64_t usual = MedianOf(loop.usual), most = Quantile(loop.usual, kUsualShare);
  bool slow = false;
  for (const v1::SignRule& rule : rules_) {
    if (rule.kind() != v1::SIGN_STEPS_SLOWER) continue;
    const double limit = static_cast<double>(usual) * (1 + rule.percent() / 100.0);
    const bool is_slow = static_cast<double>(steps.ns) >
                         std::max(limit, std::min(static_cast<double>(most), limit * kMaxRaised));
    slow = slow || is_slow;
    Watch& watch = loop.watches[rule.id()];
    const int needed = static_cast<int>(rule.steps());
    const int count = steps.paused ? 1 : std::min(steps.count, (needed - 1) / kSlowLooks + 1);
    if (!watch.Saw(is_slow, count, needed, steps.began)) continue;
    loop.slow = true;
    FoundSign& sign = found.emplace_back();
    sign.began = watch.since;
    sign.sign.set_rule(rule.id());
    sign.sign.set_loop(loop.name);
    sign.sign.set_process(loop.process);
    sign.sign.set_step_ns(steps.ns);
    sign.sign.set_usual_step_ns(usual);
  }
  return slow;
}

// A process counts as stepping while any of its loops does: during an evaluation, its training loop
// rests.
void JobSignRules::JudgePauses(MonoTime now, std::vector<FoundSign>& found) {
  if (!wants(v1::SIGN_NO_STEP)) return;
  std::map<std::string, Loop*> newest;  // By process.
  for (auto& [key, loop] : loops_) {
    Loop*& last = newest[loop.process];
    if (last == nullptr || last->began < loop.began) last = &loop;
  }
  for (const v1::SignRule& rule : rules_) {
    if (rule.kind() != v1::SIGN_NO_STEP) continue;
    for (const auto& [process, loop] : newest) {
      const bool rests =
          loop->usual.size() >= kStepsAtAll && now - loop->began > Nanos{rule.duration_ns()};
      if (!loop->watches[rule.id()].Saw(rests, 1, 1, loop->began)) continue;
      FoundSign& sign = found.emplace_back();
      sign.began = loop->began;
      sign.sign.set_rule(rule.id());
      sign.sign.set_loop(loop->name);
      sign.sign.set_process(loop->process);
      sign.sign.set_usual_step_ns(MedianOf(loop->usual));
    }
  }
}

void JobSignRules::JudgeStandStills(std::span<const v1::StepPace> told, MonoTime mono,
                                    WallTime wall, std::vector<FoundSign>& found) {
  for (const v1::SignRule& rule : rules_) {
    if (rule.kind() != v1::SIGN_STALLED) continue;
    const std::vector<StandStill> still = FindStandStills(told, wall, LimitsOf(rule));
    for (auto& [key, loop] : loops_) {
      const auto here =
          std::find_if(still.begin(), still.end(), [&watched = loop](const StandStill& one) {
            return one.process == watched.process && one.loop == watched.name;
          });
      const bool is_still = here != still.end() && loop.usual.size() >= kStepsAreSettled;
      const MonoTime since =
          is_still ? mono - std::clamp<Nanos>(wall - here->since, Nanos{0}, kMaxStep) : mono;
      if (!loop.watches[rule.id()].Saw(is_still, 1, 1, since)) continue;
      FoundSign& sign = found.emplace_back();
      sign.began = since;
      sign.sign.set_rule(rule.id());
      sign.sign.set_loop(loop.name);
      sign.sign.set_process(loop.process);
      sign.sign.set_usual_step_ns(here->usual_step_ns);
    }
  }
}

void JobSignRules::JudgeMemory(const SeenMemory& memory, MonoTime now,
                               std::vector<FoundSign>& found) {
  if (memory.limit == 0) return;
  const double percent = 100 * static_cast<double>(memory.used) / static_cast<double>(memory.limit);
  for (const v1::SignRule& rule : rules_) {
    if (rule.kind() != v1::SIGN_MEMORY_NEAR_LIMIT) continue;
    Watch& watch = memory_watches_[rule.id()];
    const bool is_near = percent >= rule.percent();
    if (!is_near && watch.found && percent > rule.percent() - kMemoryGone) continue;
    if (!watch.Saw(is_near, 1, kMemoryLooks, now)) continue;
    FoundSign& sign = found.emplace_back();
    sign.began = watch.since;
    sign.sign.set_rule(rule.id());
    sign.sign.set_memory_used(memory.used);
    sign.sign.set_memory_limit(memory.limit);
  }
}

// Steps that are slow enough to be a sign do not change what is usual, unless the sign lasts.
void JobSignRules::Remember(Loop& loop, const Steps& steps, bool slow) {
  if (loop.untold.size() < kMaxUntold) loop.untold.push_back(steps.ns);
  loop.untold_steps += static_cast<std::uint32_t>(steps.count);
  loop.slow_looks = slow ? loop.slow_looks + 1 : 0;
  if (!slow) loop.slow = false;
  if (loop.slow) {
    const std::size_t taken = std::min(loop.slow_looks - 1, loop.usual.size());
    if (loop.forget)
      loop.usual.erase(loop.usual.end() - static_cast<std::ptrdiff_t>(taken), loop.usual.end());
    loop.forget = false;
    if (loop.slow_looks < kUsualAgain) return;
    loop.usual.clear();
    loop.slow = false;
  }
  loop.forget = true;
  loop.usual.push_back(steps.ns);
  if (loop.usual.size() > kWindow) loop.usual.pop_front();
}

std::vector<v1::StepTime> JobSignRules::TakeStepTimes() {
  std::vector<v1::StepTime> times;
  for (auto& [key, loop] : loops_) {
    if (!loop.untold.empty() && times.size() < kMaxStepTimes && loop.usual.size() >= kStepsAtAll) {
      v1::StepTime& time = times.emplace_back();
      time.set_loop(loop.name);
      time.set_process(loop.process);
      time.set_step_ns(MedianOf(loop.untold));
      time.set_steps(loop.untold_steps);
    }
    loop.untold.clear();
    loop.untold_steps = 0;
  }
  return times;
}

}  // namespace strobe::session
