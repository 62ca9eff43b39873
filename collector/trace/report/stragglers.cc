#include "collector/trace/report/stragglers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "collector/trace/report/call_durations.h"
#include "collector/trace/report/late_workers.h"
#include "collector/trace/report/robust.h"
#include "common/base/strings.h"

namespace strobe::report {
namespace {

// A late worker holds the others up only if they lose at least this share of its extra time.
constexpr double kMinLoss = 0.1;
// Durations tell that others wait for a worker if it spends less time in calls than they do, by at
// least this share of its extra time.
constexpr double kMinShorter = 0.5;

// Returns by how much the worker's clock can differ from a typical other one.
std::optional<double> ClockErrorOf(const Job& job, std::uint32_t who) {
  if (!job.workers[who].clock_error_ns) return std::nullopt;
  std::vector<double> others;
  for (std::uint32_t i = 0; i < job.workers.size(); ++i) {
    if (i != who && job.workers[i].clock_error_ns)
      others.push_back(static_cast<double>(*job.workers[i].clock_error_ns));
  }
  if (others.empty()) return std::nullopt;
  return static_cast<double>(*job.workers[who].clock_error_ns) + Median(others);
}

Verdict JudgeByClock(const Straggler& straggler, bool calls) {
  if (!calls) return Verdict::kNoCalls;
  if (!straggler.clock_error_ns) return Verdict::kClockNotMeasured;
  // A clock's error is the same in all steps, so the mean over steps does not reduce it.
  return straggler.late.late_ns > *straggler.clock_error_ns ? Verdict::kHoldsUp
                                                            : Verdict::kWithinClockErrors;
}

bool IsOpenByClock(Verdict verdict) {
  return verdict == Verdict::kClockNotMeasured || verdict == Verdict::kWithinClockErrors;
}

class Reporter {
 public:
  explicit Reporter(const Job& job) : job_(job), replays_(job) {}

  StragglerReport Make() {
    std::vector<double> durations;
    for (const JobStep& step : job_.steps) {
      if (!step.workers.empty()) durations.push_back(StepDuration(step));
    }
    report_.workers = job_.workers.size();
    report_.steps = durations.size();
    report_.step_ns = Mean(durations);
    report_.unknown = job_.unknown;
    report_.arrivals = ComputeArrivals(job_);
    report_.groups = GroupTimesOf(job_, report_.arrivals);
    report_.stages = StageTimesOf(job_);
    report_.slowdown = ComputeSlowdown(job_, replays_);
    FindWorkers();
    TellUnknown();
    return std::move(report_);
  }

 private:
  void FindWorkers() {
    const auto excess = ComputeExcess(job_);
    report_.compared = static_cast<std::size_t>(std::count_if(
        excess.begin(), excess.end(), [](const Excess& worker) { return !worker.total.empty(); }));
    LateWorkers found = FindLate(excess, report_.step_ns);
    if (found.late.empty() && HasFewSteps(excess)) {
      found = FindLikely(excess, report_.step_ns);
      report_.likely = !found.late.empty();
    }
    report_.smallest_ns = found.smallest_ns;
    report_.late_count = found.late.size();
    if (found.late.size() > kMaxTold) found.late.resize(kMaxTold);
    std::vector<Straggler> candidates;
    for (Late& late : found.late) {
      Straggler straggler{.clock_error_ns = ClockErrorOf(job_, late.who)};
      straggler.late = std::move(late);
      Judge(straggler);
      (straggler.verdict == Verdict::kHoldsUp ? candidates : report_.not_decided)
          .push_back(std::move(straggler));
    }
    Replay(candidates);
    for (Straggler& straggler : candidates) {
      if (straggler.held_up->ns < kMinLoss * straggler.late.ns)
        straggler.verdict = Verdict::kNobodyWaits;
      (straggler.verdict == Verdict::kHoldsUp ? report_.stragglers : report_.not_decided)
          .push_back(std::move(straggler));
    }
    std::stable_sort(
        report_.stragglers.begin(), report_.stragglers.end(),
        [](const Straggler& a, const Straggler& b) { return a.held_up->ns > b.held_up->ns; });
  }

  void Judge(Straggler& straggler) {
    const bool calls = TakesPartInCalls(straggler.late.who);
    straggler.verdict = JudgeByClock(straggler, calls);
    // Few steps are believed only if the calls of the others say the same.
    if (!IsOpenByClock(straggler.verdict) && !(report_.likely && calls)) return;
    if (DurationsTell(straggler.late)) {
      straggler.verdict = Verdict::kHoldsUp;
      straggler.evidence = Evidence::kDurations;
    } else if (report_.likely) {
      const bool joined = !shorter_[straggler.late.who].empty();
      straggler.verdict = joined ? Verdict::kNobodyWaits : Verdict::kNoCalls;
    }
  }

  bool DurationsTell(const Late& late) {
    if (shorter_.empty()) shorter_ = ShorterInCalls(job_);
    return late.ns > 0 && Mean(shorter_[late.who]) >= kMinShorter * late.ns;
  }

  bool TakesPartInCalls(std::uint32_t worker) const {
    return !replays_.steps().empty() && report_.arrivals.workers[worker].calls > 0;
  }

  void Replay(std::vector<Straggler>& candidates) {
    if (candidates.empty()) return;
    std::vector<std::int32_t> group_of(job_.workers.size(), kNotChanged);
    for (std::size_t i = 0; i < candidates.size(); ++i)
      group_of[candidates[i].late.who] = static_cast<std::int32_t>(i);
    const MedianTimes times = ReplayWithMedians(job_, replays_, group_of, candidates.size());
    report_.held_up = DifferenceOf(times.replayed, times.all_median, times.replayed);
    for (std::size_t i = 0; i < candidates.size(); ++i)
      candidates[i].held_up = DifferenceOf(times.only[i], times.all_median, times.replayed);
  }

  void TellUnknown() {
    const auto tell = [&](const auto&... words) { report_.unknown.push_back(StrCat(words...)); };
    if (replays_.circles() > 0)
      tell(
          replays_.circles(),
          " steps could not be replayed, because their operations wait for each other in a circle");
    if (report_.likely && !report_.stragglers.empty())
      tell("\"likely\" rests on ", report_.stragglers.front().late.steps,
           " steps: of 100 jobs without a straggler, about ", std::llround(100 * kLikelyFalseAlarm),
           " gets such a headline");
    if (job_.mismatch_count > 0) {
      const CallMismatch& first = job_.mismatches.front();
      tell(job_.mismatch_count,
           " calls were not made by all members: ", NameOf(job_.workers[first.missing.front()]),
           first.missing.size() > 1 ? StrCat(" and ", first.missing.size() - 1, " more") : "",
           " lacked ", job_.types[first.type].name, " in step ", first.step);
    }
    if (report_.late_count > kMaxTold)
      tell(report_.late_count, " workers take longer than the others; only the first ", kMaxTold,
           " are told");
    for (const auto* list : {&report_.stragglers, &report_.not_decided}) {
      for (const Straggler& straggler : *list) TellUntold(straggler);
    }
  }

  // "other" and "host" may stand for causes that the trace cannot tell.
  void TellUntold(const Straggler& straggler) {
    if (straggler.late.causes.empty()) return;
    const Cause cause = straggler.late.causes.front().cause;
    if (cause != Cause::kOther && cause != Cause::kHost) return;
    const JobWorker& worker = job_.workers[straggler.late.who];
    std::vector<std::string> untold;
    for (std::size_t i = 0; i < kCauses; ++i) {
      if (!worker.tells[i]) untold.emplace_back(CauseName(static_cast<Cause>(i)));
    }
    if (!untold.empty())
      report_.unknown.push_back(StrCat("the trace of ", NameOf(worker), " does not show ",
                                       Join(untold, ", "), ": the time may have gone there"));
  }

  const Job& job_;
  Replays replays_;
  StragglerReport report_{};
  std::vector<std::vector<double>> shorter_{};  // See ShorterInCalls; computed when it is needed.
};

}  // namespace

StragglerReport FindStragglers(const Job& job) { return Reporter(job).Make(); }

}  // namespace strobe::report
