#include "collector/trace/report/wait_map.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>

#include "common/base/saturated.h"

namespace strobe::report {
namespace {

// Sorts the entries from the one at `from` on by their values, the largest first.
template <typename Value>
void LargestFirst(std::vector<std::uint32_t>& all, std::size_t from, Value value) {
  std::stable_sort(all.begin() + static_cast<std::ptrdiff_t>(from), all.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return value(a) > value(b); });
}

// Chooses those that made others wait longest, and as many of those that waited longest themselves.
std::vector<std::uint32_t> WorkersOfMap(const Job& job, const Arrivals& arrivals) {
  std::vector<std::uint32_t> all(job.workers.size());
  std::iota(all.begin(), all.end(), 0);
  if (all.size() > kMaxMapWorkers) {
    LargestFirst(all, 0, [&](std::uint32_t i) { return arrivals.workers[i].made_wait_ns; });
    LargestFirst(all, kMaxMapWorkers / 2,
                 [&](std::uint32_t i) { return arrivals.workers[i].waited_ns; });
    all.resize(kMaxMapWorkers);
  }
  std::sort(all.begin(), all.end(), [&](std::uint32_t a, std::uint32_t b) {
    const auto order = [&](std::uint32_t i) {
      const JobWorker& worker = job.workers[i];
      return std::tuple(!worker.rank, worker.rank, std::string_view(worker.name));
    };
    return order(a) < order(b);
  });
  return all;
}

std::vector<std::uint32_t> StepsOfMap(const Arrivals& arrivals) {
  std::vector<double> waited;
  for (const std::vector<std::int64_t>& step : arrivals.waited_ns)
    waited.push_back(std::accumulate(step.begin(), step.end(), 0.0));
  std::vector<std::uint32_t> all(waited.size());
  std::iota(all.begin(), all.end(), 0);
  if (all.size() > kMaxMapSteps) {
    LargestFirst(all, 0, [&](std::uint32_t i) { return waited[i]; });
    all.resize(kMaxMapSteps);
    std::sort(all.begin(), all.end());
  }
  return all;
}

// By how much the wait of one operation can be wrong; nullopt: a clock that matters is not
// measured.
std::optional<std::int64_t> ErrorOf(const Job& job, const JobStep& step, const Operation& operation,
                                    const LastArrival& arrival) {
  if (arrival.duration_error_ns) return arrival.duration_error_ns;
  const auto own = job.workers[operation.worker].clock_error_ns;
  const auto other = job.workers[step.operations[arrival.last].worker].clock_error_ns;
  if (!own || !other) return std::nullopt;
  return AddSaturated(*own, *other);
}

// The waits of all workers of a step, in the order of Job::workers.
std::vector<std::optional<StepWait>> WaitsOf(const Job& job, const JobStep& step) {
  std::vector<std::optional<StepWait>> waits(job.workers.size());
  for (const WorkerStep& worker : step.workers) {
    if (job.workers[worker.worker].on_common_clock) waits[worker.worker].emplace();
  }
  const std::vector<std::optional<LastArrival>> arrivals = LastArrivals(job, step);
  for (const Operation& operation : step.operations) {
    if (operation.collective == kAlone || !arrivals[operation.collective]) continue;
    // Durations tell the waits of workers whose clocks tell nothing.
    if (arrivals[operation.collective]->duration_error_ns && !waits[operation.worker])
      waits[operation.worker].emplace();
  }
  for (std::uint32_t i = 0; i < step.operations.size(); ++i) {
    const Operation& operation = step.operations[i];
    if (operation.collective == kAlone || !arrivals[operation.collective]) continue;
    std::optional<StepWait>& wait = waits[operation.worker];
    const LastArrival& arrival = *arrivals[operation.collective];
    // The last to arrive waits for nobody, whatever the clocks say.
    if (!wait || arrival.last == i) continue;
    wait->waited_ns = AddSaturated(wait->waited_ns, WaitOf(job, step, operation, arrival));
    const std::optional<std::int64_t> error = ErrorOf(job, step, operation, arrival);
    if (!error || !wait->error_ns)
      wait->error_ns.reset();
    else
      wait->error_ns = AddSaturated(*wait->error_ns, *error);
  }
  return waits;
}

}  // namespace

WaitMap ComputeWaitMap(const Job& job, const Arrivals& arrivals) {
  WaitMap map;
  if (arrivals.workers.size() != job.workers.size() || arrivals.calls.empty()) return map;
  map.workers = WorkersOfMap(job, arrivals);
  map.steps = StepsOfMap(arrivals);
  map.workers_left_out = job.workers.size() - map.workers.size();
  map.steps_left_out = job.steps.size() - map.steps.size();
  map.waits.resize(map.workers.size());
  for (const std::uint32_t step : map.steps) {
    const std::vector<std::optional<StepWait>> waits = WaitsOf(job, job.steps[step]);
    for (std::size_t i = 0; i < map.workers.size(); ++i)
      map.waits[i].push_back(waits[map.workers[i]]);
  }
  return map;
}

}  // namespace strobe::report
