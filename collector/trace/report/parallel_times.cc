#include "collector/trace/report/parallel_times.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace strobe::report {
namespace {

// Sums over the communicators of one kind.
struct GroupSum {
  GroupTime time{};
  double in_calls_ns = 0, worker_steps = 0;
  double waited_ns = 0, member_steps = 0;  // Joined calls only.
};

// In how many of the job's steps each worker took part.
std::vector<double> StepsOfWorkers(const Job& job) {
  std::vector<double> steps(job.workers.size());
  for (const JobStep& step : job.steps)
    for (const WorkerStep& worker : step.workers) ++steps[worker.worker];
  return steps;
}

}  // namespace

std::vector<GroupTime> GroupTimesOf(const Job& job, const Arrivals& arrivals) {
  const std::vector<double> steps = StepsOfWorkers(job);
  std::vector<double> waited(job.communicators.size());
  for (const CallArrivals& call : arrivals.calls)
    waited[call.communicator] += static_cast<double>(call.waited_ns);
  std::map<std::pair<GroupKind, bool>, GroupSum> sums;
  for (std::size_t i = 0; i < job.communicators.size(); ++i) {
    const Communicator& communicator = job.communicators[i];
    if (communicator.calls == 0) continue;
    GroupSum& sum = sums[{communicator.kind, communicator.named}];
    ++sum.time.communicators;
    sum.time.calls += communicator.calls;
    sum.in_calls_ns += communicator.in_calls_ns;
    sum.worker_steps += static_cast<double>(communicator.worker_steps);
    sum.waited_ns += waited[i];
    for (const std::uint32_t member : communicator.members) sum.member_steps += steps[member];
  }
  std::vector<GroupTime> times;
  for (auto& [key, sum] : sums) {
    std::tie(sum.time.kind, sum.time.named) = key;
    if (sum.worker_steps > 0) sum.time.in_calls_ns = sum.in_calls_ns / sum.worker_steps;
    if (sum.member_steps > 0) sum.time.waited_ns = sum.waited_ns / sum.member_steps;
    times.push_back(sum.time);
  }
  std::stable_sort(times.begin(), times.end(), [](const GroupTime& a, const GroupTime& b) {
    return a.in_calls_ns > b.in_calls_ns;
  });
  return times;
}

std::vector<StageTime> StageTimesOf(const Job& job) {
  struct StageSum {
    std::set<std::uint32_t> workers{};
    double own_ns = 0, steps = 0;
  };
  std::map<std::uint32_t, StageSum> sums;
  for (const JobStep& step : job.steps) {
    for (const WorkerStep& worker : step.workers) {
      if (!job.workers[worker.worker].in_pipeline) continue;
      StageSum& sum = sums[job.workers[worker.worker].stage];
      sum.workers.insert(worker.worker);
      sum.own_ns += static_cast<double>(worker.OwnTotal());
      ++sum.steps;
    }
  }
  std::vector<StageTime> stages;
  for (const auto& [stage, sum] : sums)
    stages.push_back(
        {.stage = stage, .workers = sum.workers.size(), .own_ns = sum.own_ns / sum.steps});
  return stages;
}

}  // namespace strobe::report
