#include "collector/trace/report/late_workers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "collector/trace/report/robust.h"

// How late workers are found. The input is how much longer than the others' median each worker
// took, for each step; a worker here may also be a stage.
//
//  1. Compare only workers with at least kMinSteps steps, and each by its trimmed mean.
//  2. MeasureNoise: how much the means of workers differ, and how much the steps of one worker.
//  3. LateInTypicalStep: a worker is late if its trimmed mean exceeds a threshold. With few workers
//     the threshold comes from the worker's own error, with many from the differences among
//     workers.
//  4. LateInTheMean: with few workers, the plain mean is tested too, because a worker that is late
//  in
//     half of its steps has no typical step.
//  5. CountLateSteps and LateNowAndThen: a worker is also late if it has more late steps than
//  chance
//     gives it at the rate of the workers that are not late by steps 3 and 4.
//  6. Describe: by how much it is late, whether in the typical step or now and then, and on what it
//     spends that time.
//
// A difference below kMinShare of a step is never reported. Chance divides the chance of a false
// alarm among the three tests (3, 4, 5) and the workers.
//
// FindLikely uses step 3 alone: two steps tell nothing of what happens now and then.
namespace strobe::report {

namespace {

// The own time of one worker in a step: the total, then by cause.
struct OwnTimes {
  std::uint32_t who = 0;
  std::array<double, kCauses + 1> ns{};
};

OwnTimes TimesOf(const WorkerStep& step) {
  OwnTimes times{.who = step.worker};
  times.ns[0] = static_cast<double>(step.OwnTotal());
  for (std::size_t cause = 0; cause < kCauses; ++cause)
    times.ns[cause + 1] = static_cast<double>(step.own_ns[cause]);
  return times;
}

// The median of sorted values without the one at `place`.
double MedianWithout(const std::vector<std::pair<double, std::size_t>>& sorted, std::size_t place) {
  const auto at = [&](std::size_t i) { return sorted[i < place ? i : i + 1].first; };
  const std::size_t others = sorted.size() - 1;
  if (others % 2 == 1) return at(others / 2);
  return (at(others / 2 - 1) + at(others / 2)) / 2;
}

// Adds each one's distance from the median of the others.
void AddDistances(const std::vector<OwnTimes>& times, std::vector<Excess>& excess) {
  if (times.size() < 2) return;
  std::vector<std::pair<double, std::size_t>> sorted(times.size());
  for (std::size_t part = 0; part <= kCauses; ++part) {
    for (std::size_t i = 0; i < times.size(); ++i) sorted[i] = {times[i].ns[part], i};
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t place = 0; place < sorted.size(); ++place) {
      Excess& own = excess[times[sorted[place].second].who];
      auto& series = part == 0 ? own.total : own.by_cause[part - 1];
      series.push_back(sorted[place].first - MedianWithout(sorted, place));
    }
  }
}

std::map<std::uint32_t, std::vector<OwnTimes>> ByStage(const Job& job, const JobStep& step) {
  std::map<std::uint32_t, std::vector<OwnTimes>> stages;
  for (const WorkerStep& worker : step.workers)
    stages[job.workers[worker.worker].stage].push_back(TimesOf(worker));
  return stages;
}

}  // namespace

std::vector<Excess> ComputeExcess(const Job& job) {
  std::vector<Excess> excess(job.workers.size());
  for (const JobStep& step : job.steps) {
    for (const auto& [stage, times] : ByStage(job, step)) AddDistances(times, excess);
  }
  return excess;
}

double StepDuration(const JobStep& step) {
  std::vector<double> durations;
  for (const WorkerStep& worker : step.workers)
    durations.push_back(static_cast<double>(worker.end_ns) - static_cast<double>(worker.begin_ns));
  return Median(durations);
}

namespace {

// From kManyWorkers on, the differences among workers tell what is usual; from kSomeWorkers on,
// they are taken into account.
constexpr std::size_t kManyWorkers = 32, kSomeWorkers = 5;
// The median distance uses 37 % of what the values of a normal distribution tell.
constexpr double kMedianEfficiency = 0.37;
// A step is late if it exceeds the usual difference of single steps by this factor.
constexpr double kLateStep = 4;
constexpr std::size_t kMinLateSteps = 3;

struct LateTest {
  std::size_t min_steps = kMinSteps;
  double false_alarm = kFalseAlarm;  // A job's, for all tests together.
  double tests = 3;                  // Among which it is divided.
};
constexpr LateTest kCertain{};
constexpr LateTest kLikely{
    .min_steps = kMinLikelySteps, .false_alarm = kLikelyFalseAlarm, .tests = 1};

class Finder {
 public:
  Finder(std::span<const Excess> excess, double step_ns, const LateTest& test)
      : excess_(excess), step_ns_(step_ns), test_(test) {
    for (std::uint32_t i = 0; i < excess.size(); ++i) {
      typical_.push_back(TrimmedMeanOf(excess[i].total));
      if (excess[i].total.size() >= test.min_steps) compared_.push_back(i);
    }
  }

  LateWorkers FindTypical() {
    LateWorkers result;
    if (compared_.size() < 2) return result;
    MeasureNoise();
    std::vector<bool> typically(excess_.size());
    for (const std::uint32_t who : compared_) typically[who] = LateInTypicalStep(who);
    CountLateSteps(typically);
    for (const std::uint32_t who : compared_) {
      if (typically[who]) result.late.push_back(Describe(who, /*typically=*/true));
    }
    SortLate(result);
    return result;
  }

  LateWorkers Find() {
    LateWorkers result;
    if (compared_.size() < 2) return result;
    MeasureNoise();
    std::vector<bool> typically(excess_.size());
    for (const std::uint32_t who : compared_)
      typically[who] = LateInTypicalStep(who) || LateInTheMean(who);
    CountLateSteps(typically);
    for (const std::uint32_t who : compared_) {
      if (typically[who] || LateNowAndThen(who))
        result.late.push_back(Describe(who, typically[who]));
    }
    SortLate(result);
    result.smallest_ns = std::max(Threshold(usual_error_, UsualDegrees()), SmallestReported());
    return result;
  }

 private:
  static void SortLate(LateWorkers& found) {
    std::sort(found.late.begin(), found.late.end(),
              [](const Late& a, const Late& b) { return a.ns > b.ns; });
  }
  double SmallestReported() const { return kMinShare * step_ns_; }
  // Returns the chance of a false alarm for one worker and one of the tests.
  double Chance() const {
    return test_.false_alarm / test_.tests / static_cast<double>(compared_.size());
  }

  void MeasureNoise() {
    std::vector<double> means, errors, kept, distances;
    for (const std::uint32_t who : compared_) {
      means.push_back(typical_[who].mean);
      errors.push_back(typical_[who].error);
      kept.push_back(static_cast<double>(typical_[who].kept));
      for (const double value : excess_[who].total) distances.push_back(value - typical_[who].mean);
    }
    usual_error_ = Median(errors);
    usual_kept_ = Median(kept);
    const double center = Median(means);
    difference_ = RobustDeviation(means, center);
    step_noise_ = RobustDeviation(distances, 0);
  }

  // The noise of one worker's steps, measured on the steps that are shorter than its median. Late
  // steps do not enlarge it.
  static double NoiseBelow(const std::vector<double>& steps) {
    std::vector<double> sorted = steps, below;
    const double median = Median(sorted);
    for (const double ns : steps) {
      if (ns < median) below.push_back(ns);
    }
    return RobustDeviation(below, median);
  }

  // Counts late steps. How often steps are late by chance is counted without workers that typically
  // are late.
  void CountLateSteps(const std::vector<bool>& typically) {
    late_step_ns_.assign(excess_.size(), 0);
    late_steps_.assign(excess_.size(), 0);
    for (const std::uint32_t who : compared_) {
      const auto& steps = excess_[who].total;
      const double noise = compared_.size() < kSomeWorkers ? NoiseBelow(steps) : step_noise_;
      late_step_ns_[who] = std::max(kLateStep * noise, SmallestReported());
      late_steps_[who] = static_cast<std::size_t>(std::count_if(
          steps.begin(), steps.end(), [&](double ns) { return ns > late_step_ns_[who]; }));
      if (typically[who]) continue;
      all_steps_ += steps.size();
      all_late_steps_ += late_steps_[who];
    }
  }

  // Workers' noise is alike, so the degrees of freedom of up to four workers count together. With
  // few steps it matters that the differences of two workers are each other's mirror image.
  double Degrees(double kept) const {
    const std::size_t independent =
        test_.min_steps < kMinSteps ? compared_.size() - 1 : compared_.size();
    return std::max(kept - 1, 1.0) * static_cast<double>(std::min<std::size_t>(independent, 4));
  }
  double UsualDegrees() const { return Degrees(usual_kept_); }

  // The mean that a worker with this error must exceed to be late.
  double Threshold(double error, double degrees) const {
    const auto count = static_cast<double>(compared_.size());
    if (compared_.size() >= kManyWorkers)
      return std::max(difference_ * StudentQuantile(Chance(), kMedianEfficiency * (count - 1)),
                      3 * error);
    const double own = std::max(error, usual_error_) * StudentQuantile(Chance(), degrees);
    return compared_.size() >= kSomeWorkers ? std::max(own, 4 * difference_) : own;
  }

  bool LateInTypicalStep(std::uint32_t who) const {
    const TrimmedMean& mean = typical_[who];
    return mean.kept >= 2 && mean.mean > SmallestReported() &&
           mean.mean > Threshold(mean.error, Degrees(static_cast<double>(mean.kept)));
  }

  // A worker that is late in about half of its steps has two typical times, which a trimmed mean
  // cannot tell from noise. With few workers, the plain mean is therefore tested too. With many,
  // the other workers show how rare such steps are.
  bool LateInTheMean(std::uint32_t who) const {
    if (compared_.size() >= kSomeWorkers) return false;
    const Spread spread = SpreadOf(excess_[who].total);
    const auto degrees = static_cast<double>(excess_[who].total.size() - 1);
    // half_width is that of a 95 % interval.
    const double error = spread.half_width / StudentQuantile(0.025, degrees);
    return spread.mean > SmallestReported() &&
           spread.mean > error * StudentQuantile(Chance(), degrees);
  }

  // Late steps come by chance too, but not always on the same worker.
  bool LateNowAndThen(std::uint32_t who) const {
    const std::size_t hits = late_steps_[who], trials = excess_[who].total.size();
    if (hits < kMinLateSteps || Mean(excess_[who].total) < SmallestReported()) return false;
    const double rate = static_cast<double>(all_late_steps_ - hits + 1) /
                        static_cast<double>(all_steps_ - trials + 1);
    return BinomialTail(hits, trials, rate) < Chance();
  }

  Late Describe(std::uint32_t who, bool typically) const {
    const Excess& excess = excess_[who];
    const double mean = Mean(excess.total);
    std::vector<double> median = excess.total;
    Late late{.who = who,
              .steps = excess.total.size(),
              .late_steps = late_steps_[who],
              .persistent = typically && Median(median) > mean / 2};
    const Spread spread = late.persistent ? SpreadOf(typical_[who]) : SpreadOf(excess.total);
    late.ns = late.late_ns = spread.mean;
    late.error_ns = spread.half_width;
    if (late.persistent) {
      late.late_steps = late.steps;
    } else if (late.late_steps > 0) {
      late.late_ns = Mean(InLateSteps(who, excess.total));
    }
    AddCauses(excess, late);
    return late;
  }

  std::vector<double> InLateSteps(std::uint32_t who, const std::vector<double>& series) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < series.size(); ++i) {
      if (excess_[who].total[i] > late_step_ns_[who]) values.push_back(series[i]);
    }
    return values.empty() ? series : values;
  }

  void AddCauses(const Excess& excess, Late& late) const {
    double sum = 0;
    for (std::size_t cause = 0; cause < kCauses; ++cause) {
      const Spread spread = late.persistent
                                ? SpreadOf(TrimmedMeanOf(excess.by_cause[cause]))
                                : SpreadOf(InLateSteps(late.who, excess.by_cause[cause]));
      if (spread.mean <= 0) continue;
      sum += spread.mean;
      late.causes.push_back(
          {.cause = static_cast<Cause>(cause), .ns = spread.mean, .error_ns = spread.half_width});
    }
    for (CauseShare& cause : late.causes) cause.share = cause.ns / sum;
    std::stable_sort(late.causes.begin(), late.causes.end(),
                     [](const CauseShare& a, const CauseShare& b) { return a.ns > b.ns; });
  }

  const std::span<const Excess> excess_;
  const double step_ns_;
  const LateTest test_;
  std::vector<TrimmedMean> typical_{};
  std::vector<std::uint32_t> compared_{};
  double usual_error_ = 0, usual_kept_ = 0;
  double difference_ = 0;               // How much the means of workers differ.
  double step_noise_ = 0;               // How much the steps of one worker differ.
  std::vector<double> late_step_ns_{};  // The threshold above which a step of each is late.
  std::vector<std::size_t> late_steps_{};
  std::size_t all_steps_ = 0, all_late_steps_ = 0;
};

}  // namespace

LateWorkers FindLate(std::span<const Excess> excess, double step_ns) {
  return Finder(excess, step_ns, kCertain).Find();
}

bool HasFewSteps(std::span<const Excess> excess) {
  std::size_t some = 0, enough = 0;
  for (const Excess& worker : excess) {
    some += worker.total.size() >= kMinLikelySteps;
    enough += worker.total.size() >= kMinSteps;
  }
  return 2 * enough < some;
}

LateWorkers FindLikely(std::span<const Excess> excess, double step_ns) {
  return Finder(excess, step_ns, kLikely).FindTypical();
}

}  // namespace strobe::report
