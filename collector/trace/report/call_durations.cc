#include "collector/trace/report/call_durations.h"

#include <algorithm>
#include <map>
#include <utility>

#include "collector/trace/report/robust.h"
#include "common/base/saturated.h"

namespace strobe::report {
namespace {

bool IsCounted(const Job& job, const Operation& operation) {
  return operation.collective != kAlone && !job.types[operation.type].rooted;
}

// The members of one call: who, and for how long.
using MemberDurations = std::vector<std::pair<std::uint32_t, double>>;

// Adds to each member by how much shorter its duration is than the median of the others'.
void AddShorter(const MemberDurations& members, std::map<std::uint32_t, double>& shorter) {
  if (members.size() < 2) return;
  std::vector<double> sorted;
  for (const auto& [worker, ns] : members) sorted.push_back(ns);
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [worker, ns] : members) {
    const auto own = static_cast<std::size_t>(std::lower_bound(sorted.begin(), sorted.end(), ns) -
                                              sorted.begin());
    const auto other = [&](std::size_t i) { return sorted[i < own ? i : i + 1]; };
    const std::size_t others = sorted.size() - 1;
    const double median =
        others % 2 == 1 ? other(others / 2) : (other(others / 2 - 1) + other(others / 2)) / 2;
    shorter[worker] += median - ns;
  }
}

}  // namespace

std::int64_t DurationOf(const Operation& operation) {
  return std::max<std::int64_t>(AddSaturated(operation.end_ns, -operation.begin_ns), 0);
}

std::vector<CallDurations> DurationsOfCalls(const Job& job, const JobStep& step) {
  std::vector<CallDurations> calls(step.collectives.size());
  for (std::uint32_t i = 0; i < step.operations.size(); ++i) {
    const Operation& operation = step.operations[i];
    if (!IsCounted(job, operation)) continue;
    CallDurations& call = calls[operation.collective];
    const std::int64_t duration = DurationOf(operation);
    ++call.members;
    if (call.members == 1 || duration < call.shortest_ns) {
      call.second_ns = call.shortest_ns;
      call.shortest_ns = duration;
      call.shortest = i;
    } else if (call.members == 2 || duration < call.second_ns) {
      call.second_ns = duration;
    }
  }
  return calls;
}

std::vector<std::vector<double>> ShorterInCalls(const Job& job) {
  std::vector<std::vector<double>> series(job.workers.size());
  for (const JobStep& step : job.steps) {
    std::vector<MemberDurations> calls(step.collectives.size());
    for (const Operation& operation : step.operations) {
      if (!IsCounted(job, operation)) continue;
      calls[operation.collective].emplace_back(operation.worker,
                                               static_cast<double>(DurationOf(operation)));
    }
    std::map<std::uint32_t, double> shorter;
    for (const MemberDurations& members : calls) AddShorter(members, shorter);
    for (const auto& [worker, ns] : shorter) series[worker].push_back(ns);
  }
  return series;
}

}  // namespace strobe::report
