#include "capture/step_plan.h"

#include <algorithm>
#include <cmath>

#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/protocol/capture_defaults.h"

// How PlanStep chooses the first step, from what each process told at preflight:
//
//  1. CommonLoop: choose the loop that all workers report.
//  2. FirstAfter, for each process: the first step that it cannot begin before `soonest`, even at
//     kFastestPace of its usual time per step, or at the pace of its fastest steps lately. The
//     largest of these steps is the first one for which all workers can be armed in time.
//  3. Take the wanted step if it is not before that one, or round up to the wanted multiple, or
//     take that one.
//  4. Expect, for each worker: when its processes begin and end the steps at their usual pace.
//     Refuse if a worker would reach them too late, or take too long for them.
//  5. The deadline `by` is the expected end of the slowest worker, with as much time again for
//     workers that become slower, or as much as at the pace of their slowest steps lately.
//     `longest` bounds it.
namespace strobe::capture {
namespace {

// The time that workers get beyond what their pace suggests: a share of it, and a constant.
constexpr double kMaxSlower = 1.0;
constexpr Nanos kSlack = std::chrono::seconds(30);
// Bounds of what a changing pace changes: by so much the first step comes later at the usual pace
// because some steps were faster, and the deadline because some were slower.
constexpr Nanos kMaxLater = std::chrono::minutes(1), kMaxLonger = std::chrono::minutes(5);

Nanos Times(double factor, Nanos time) {
  constexpr double kMaxNs = 1e16;  // Four months.
  return Nanos{static_cast<std::int64_t>(
      std::clamp(factor * static_cast<double>(time.count()), 0.0, kMaxNs))};
}

// When the process begins the step, if each step takes `each`. A step that is overdue may end at
// any moment. `step` must be beyond pace.number.
WallTime BeginOf(std::int64_t step, const LoopPace& pace, Nanos each, WallTime now) {
  const WallTime next = std::max(now, pace.began + each);
  return next + Times(static_cast<double>(step - pace.number - 1), each);
}

// The first step that the process begins after `soonest`, if each step takes at least `least`.
std::int64_t FirstAt(WallTime soonest, const LoopPace& pace, Nanos least, WallTime now) {
  const std::int64_t next = pace.number + 1;
  const WallTime begin = BeginOf(next, pace, least, now);
  if (begin >= soonest) return next;
  const double more = static_cast<double>((soonest - begin).count()) /
                      std::max(1.0, static_cast<double>(least.count()));
  return next + static_cast<std::int64_t>(std::ceil(std::min(more, 1e15)));
}

// The first step that the process begins after `soonest`, even if it becomes faster. With short
// steps, the wait is up to four times as long as at the measured pace, which is a few seconds; with
// long ones it is one or two steps longer. Where the pace changes much, it is up to kMaxLater.
std::int64_t FirstAfter(WallTime soonest, const LoopPace& pace, WallTime now) {
  const std::int64_t first = FirstAt(soonest, pace, Times(kFastestPace, pace.period), now);
  if (pace.fastest <= Nanos{0}) return first;
  const std::int64_t latest = pace.number + 1 + kMaxLater / pace.period;
  return std::max(first, std::min(latest, FirstAt(soonest, pace, pace.fastest, now)));
}

std::vector<LoopPace> OfLoop(const WorkerPace& worker, const std::string& loop) {
  std::vector<LoopPace> paces;
  for (const LoopPace& pace : worker.loops) {
    if (pace.loop == loop && pace.period > Nanos{0}) paces.push_back(pace);
  }
  return paces;
}

// The loop that all workers tell. Of several, a loop that a framework tells comes first, because it
// can begin exactly at a step; then the one that was active last on all workers.
absl::StatusOr<std::string> CommonLoop(std::span<const WorkerPace> workers) {
  std::optional<std::pair<bool, WallTime>> best;
  std::string loop;
  for (const LoopPace& candidate : workers.front().loops) {
    std::pair<bool, WallTime> rank{candidate.by_framework, WallTime::max()};
    for (const WorkerPace& worker : workers) {
      const std::vector<LoopPace> paces = OfLoop(worker, candidate.loop);
      WallTime latest = WallTime::min();
      for (const LoopPace& pace : paces) latest = std::max(latest, pace.began);
      rank.second = std::min(rank.second, latest);
    }
    if (rank.second == WallTime::min() || (best && *best >= rank)) continue;
    best = rank;
    loop = candidate.loop;
  }
  if (best) return loop;
  for (const WorkerPace& worker : workers) {
    if (worker.loops.empty())
      return absl::NotFoundError(StrCat(worker.worker, " reports no steps"));
  }
  return absl::NotFoundError("the workers do not report steps of the same loop");
}

std::int64_t RoundUp(std::int64_t number, std::int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

absl::Status Refuse(const WorkerPace& worker, const StepsWanted& wanted, std::string_view why) {
  return absl::FailedPreconditionError(StrCat(worker.worker, ": step ", wanted.number, " ", why));
}

// The worker's part of the plan. FailedPrecondition if the steps are not within the limits.
absl::StatusOr<ExpectedSteps> Expect(const StepPlan& plan, const WorkerPace& worker,
                                     const std::vector<LoopPace>& paces, WallTime now,
                                     Nanos longest) {
  ExpectedSteps expected{WallTime::max(), now};
  for (const LoopPace& pace : paces) {
    const WallTime begin = BeginOf(plan.first, pace, pace.period, now);
    expected.begin = std::min(expected.begin, begin);
    expected.end = std::max(expected.end, BeginOf(plan.last() + 1, pace, pace.period, now));
    if (const Nanos wait = begin - now; wait > kMaxStepWait) {
      return absl::FailedPreconditionError(StrCat(worker.worker, ": it is at step ", pace.number,
                                                  " and would reach step ", plan.first, " only in ",
                                                  FormatDuration(wait), "; at most ",
                                                  FormatDuration(kMaxStepWait), " is allowed"));
    }
    if (const Nanos length = Times(plan.count, pace.period); length > longest) {
      return absl::FailedPreconditionError(
          StrCat(worker.worker, ": ", plan.count, " steps take about ", FormatDuration(length),
                 "; at most ", FormatDuration(longest), " can be recorded; request fewer"));
    }
  }
  return expected;
}

}  // namespace

absl::StatusOr<StepPlan> PlanStep(const StepsWanted& wanted, WallTime now, WallTime soonest,
                                  std::span<const WorkerPace> workers, Nanos longest) {
  if (workers.empty()) return absl::InvalidArgumentError("no worker is ready");
  StepPlan plan{.count = wanted.count};
  ASSIGN_OR_RETURN(plan.loop, CommonLoop(workers));
  std::vector<std::vector<LoopPace>> paces;  // Each worker's paces of the loop.
  std::int64_t first = 0;
  const WorkerPace* farthest = &workers.front();
  for (const WorkerPace& worker : workers) {
    for (const LoopPace& process : paces.emplace_back(OfLoop(worker, plan.loop))) {
      const std::int64_t after = FirstAfter(soonest, process, now);
      if (wanted.from == StepsWanted::From::kNumber && process.number >= wanted.number)
        return Refuse(worker, wanted, StrCat("has passed; the worker is at step ", process.number));
      if (after > first) farthest = &worker;
      first = std::max(first, after);
    }
  }
  if (wanted.from == StepsWanted::From::kNumber && wanted.number < first) {
    return Refuse(
        *farthest, wanted,
        StrCat("comes too soon; the first step for which all workers can be armed is ", first));
  }
  plan.first = wanted.from == StepsWanted::From::kNumber       ? wanted.number
               : wanted.from == StepsWanted::From::kMultipleOf ? RoundUp(first, wanted.number)
                                                               : first;
  plan.begin = WallTime::max();
  WallTime end = now, last_begin = now;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    ASSIGN_OR_RETURN(const ExpectedSteps expected,
                     Expect(plan, workers[i], paces[i], now, longest));
    plan.expected.push_back(expected);
    plan.begin = std::min(plan.begin, expected.begin);
    last_begin = std::max(last_begin, expected.begin);
    end = std::max(end, expected.end);
  }
  WallTime slow_end = end;
  for (const std::vector<LoopPace>& of_worker : paces) {
    for (const LoopPace& pace : of_worker)
      slow_end = std::max(slow_end, BeginOf(plan.last() + 1, pace, pace.slowest, now));
  }
  plan.by = std::max(end + Times(kMaxSlower, end - now), std::min(slow_end, end + kMaxLonger));
  plan.by += kSlack;
  if (longest < kMaxStepsTime) plan.by = std::min(plan.by, std::max(end, last_begin + longest));
  return plan;
}

}  // namespace strobe::capture
