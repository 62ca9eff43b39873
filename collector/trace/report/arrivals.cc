#include "collector/trace/report/arrivals.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "collector/trace/report/call_durations.h"
#include "common/base/saturated.h"

namespace strobe::report {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();

struct Latest {
  std::uint32_t last = 0;  // An operation.
  std::int64_t last_ns = kNever, second_ns = kNever;
  std::size_t members = 0, comparable = 0;  // All, and those on the common clock.
};

// The two latest members of each collective, of those on the common clock. If there is none, the
// last one is any.
std::vector<Latest> LatestOf(const Job& job, const JobStep& step) {
  std::vector<Latest> latest(step.collectives.size());
  for (std::uint32_t i = 0; i < step.operations.size(); ++i) {
    const Operation& operation = step.operations[i];
    if (operation.collective == kAlone) continue;
    Latest& two = latest[operation.collective];
    if (two.members++ == 0) two.last = i;
    if (!job.workers[operation.worker].on_common_clock) continue;
    ++two.comparable;
    if (two.comparable == 1 || operation.begin_ns > two.last_ns) {
      two.second_ns = two.last_ns;
      two.last = i;
      two.last_ns = operation.begin_ns;
    } else if (two.comparable == 2 || operation.begin_ns > two.second_ns) {
      two.second_ns = operation.begin_ns;
    }
  }
  return latest;
}

// The latest time, within the clocks' errors, at which a member other than the last can have
// arrived at each collective; nullopt where a clock is not measured.
std::vector<std::optional<std::int64_t>> LatestPossible(const Job& job, const JobStep& step,
                                                        const std::vector<Latest>& latest) {
  std::vector<std::optional<std::int64_t>> possible(latest.size(), kNever);
  for (std::uint32_t i = 0; i < step.operations.size(); ++i) {
    const Operation& operation = step.operations[i];
    if (operation.collective == kAlone || !possible[operation.collective]) continue;
    const auto error = job.workers[operation.worker].clock_error_ns;
    if (!error) {
      possible[operation.collective] = std::nullopt;
    } else if (latest[operation.collective].last != i) {
      possible[operation.collective] =
          std::max(*possible[operation.collective], AddSaturated(operation.begin_ns, *error));
    }
  }
  return possible;
}

}  // namespace

std::int64_t WaitOf(const Job& job, const JobStep& step, const Operation& operation,
                    const LastArrival& arrival) {
  const Operation& last = step.operations[arrival.last];
  // The last one waited for nobody, so that its own duration is that of the transfer.
  if (arrival.duration_error_ns)
    return std::max<std::int64_t>(DurationOf(operation) - DurationOf(last), 0);
  const bool comparable =
      job.workers[operation.worker].on_common_clock && job.workers[last.worker].on_common_clock;
  if (!comparable) return 0;
  const bool went_on = operation.end_ns <= last.begin_ns;
  if (went_on && job.types[operation.type].rooted) return 0;
  const std::int64_t until = std::min(last.begin_ns, operation.end_ns);
  return std::max<std::int64_t>(AddSaturated(until, -operation.begin_ns), 0);
}

std::vector<std::optional<LastArrival>> LastArrivals(const Job& job, const JobStep& step) {
  const std::vector<Latest> latest = LatestOf(job, step);
  const auto possible = LatestPossible(job, step, latest);
  std::vector<std::optional<LastArrival>> arrivals(latest.size());
  for (std::size_t i = 0; i < latest.size(); ++i) {
    const Latest& two = latest[i];
    if (two.members < 2) continue;
    arrivals[i] = {.last = two.last, .members = two.members};
    if (two.comparable >= 2) arrivals[i]->ahead_ns = AddSaturated(two.last_ns, -two.second_ns);
    if (!possible[i] || two.comparable < two.members) continue;
    const auto error = job.workers[step.operations[two.last].worker].clock_error_ns;
    arrivals[i]->error_ns = AddSaturated(AddSaturated(*possible[i], -two.second_ns), *error);
  }
  const std::vector<CallDurations> durations = DurationsOfCalls(job, step);
  for (std::size_t i = 0; i < latest.size(); ++i) {
    if (!arrivals[i] || arrivals[i]->decided() || !durations[i].decided()) continue;
    arrivals[i]->last = durations[i].shortest;
    arrivals[i]->duration_error_ns = durations[i].error_ns();
  }
  for (const Operation& operation : step.operations) {
    if (operation.collective == kAlone || !arrivals[operation.collective]) continue;
    LastArrival& arrival = *arrivals[operation.collective];
    arrival.waited_ns = AddSaturated(arrival.waited_ns, WaitOf(job, step, operation, arrival));
  }
  return arrivals;
}

Arrivals ComputeArrivals(const Job& job) {
  Arrivals result{.workers = std::vector<WorkerArrivals>(job.workers.size())};
  std::map<std::pair<std::uint32_t, std::uint32_t>, CallArrivals> calls;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::map<std::uint32_t, std::size_t>> last_of;
  std::vector<std::int64_t> waited(job.workers.size());
  for (const JobStep& step : job.steps) {
    const auto arrivals = LastArrivals(job, step);
    std::fill(waited.begin(), waited.end(), 0);
    for (const Operation& operation : step.operations) {
      if (operation.collective == kAlone || !arrivals[operation.collective]) continue;
      const LastArrival& arrival = *arrivals[operation.collective];
      ++result.workers[operation.worker].calls;
      if (arrival.decided()) ++result.workers[operation.worker].decided;
      waited[operation.worker] =
          AddSaturated(waited[operation.worker], WaitOf(job, step, operation, arrival));
    }
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      if (!arrivals[i]) continue;
      const std::pair key(step.collectives[i].communicator, step.collectives[i].type);
      CallArrivals& call = calls[key];
      ++call.calls;
      call.waited_ns = AddSaturated(call.waited_ns, arrivals[i]->waited_ns);
      if (!arrivals[i]->decided()) {
        ++call.undecided;
        continue;
      }
      const std::uint32_t worker = step.operations[arrivals[i]->last].worker;
      WorkerArrivals& last = result.workers[worker];
      ++last.last;
      last.made_wait_ns = AddSaturated(last.made_wait_ns, arrivals[i]->waited_ns);
      ++last_of[key][worker];
    }
    std::vector<std::int64_t>& of_step = result.waited_ns.emplace_back();
    for (const WorkerStep& worker : step.workers) {
      of_step.push_back(waited[worker.worker]);
      std::int64_t& total = result.workers[worker.worker].waited_ns;
      total = AddSaturated(total, waited[worker.worker]);
    }
  }
  for (auto& [key, call] : calls) {
    std::tie(call.communicator, call.type) = key;
    for (const auto& [worker, times] : last_of[key]) {
      if (times <= call.times_last) continue;
      call.most_often_last = worker;
      call.times_last = times;
    }
    result.calls.push_back(call);
  }
  std::stable_sort(result.calls.begin(), result.calls.end(),
                   [](const auto& a, const auto& b) { return a.waited_ns > b.waited_ns; });
  return result;
}

}  // namespace strobe::report
