#include "collector/trace/report/excess.h"

#include <algorithm>
#include <map>
#include <utility>

#include "collector/trace/report/robust.h"

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

}  // namespace strobe::report
