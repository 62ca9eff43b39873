#include "cli/report/shown_workers.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace strobe {

std::vector<std::uint32_t> ShownWorkers(const report::Job& job,
                                        const report::StragglerReport& report, std::size_t most) {
  std::vector<std::uint32_t> shown(job.workers.size());
  std::iota(shown.begin(), shown.end(), 0u);
  const auto by_rank = [&](std::uint32_t a, std::uint32_t b) {
    const report::JobWorker &one = job.workers[a], &two = job.workers[b];
    return std::tuple(!one.rank, one.rank, a) < std::tuple(!two.rank, two.rank, b);
  };
  if (shown.size() > most) {
    std::vector<double> own_ns(job.workers.size());
    for (const report::JobStep& step : job.steps) {
      for (const report::WorkerStep& worker : step.workers)
        own_ns[worker.worker] += static_cast<double>(worker.OwnTotal());
    }
    for (const std::uint32_t worker : shown) {
      if (IsLate(report, worker)) own_ns[worker] = std::numeric_limits<double>::infinity();
    }
    std::stable_sort(shown.begin(), shown.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return own_ns[a] > own_ns[b]; });
    shown.resize(most);
  }
  std::sort(shown.begin(), shown.end(), by_rank);
  return shown;
}

bool IsLate(const report::StragglerReport& report, std::uint32_t worker) {
  const auto is_it = [&](const report::Straggler& late) { return late.late.who == worker; };
  return std::any_of(report.stragglers.begin(), report.stragglers.end(), is_it) ||
         std::any_of(report.not_decided.begin(), report.not_decided.end(), is_it);
}

}  // namespace strobe
