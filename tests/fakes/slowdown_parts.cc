#include "tests/fakes/slowdown_parts.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "collector/trace/report/robust.h"
#include "common/base/strings.h"

namespace strobe::report {
namespace {

// The ideal duration of each type.
std::vector<std::int64_t> IdealDurations(const Job& job, const Replays& replays) {
  std::vector<std::vector<double>> of_type(job.types.size());
  for (const ReplayedStep& step : replays.steps()) {
    const auto& operations = job.steps[step.index].operations;
    for (std::size_t i = 0; i < operations.size(); ++i)
      of_type[operations[i].type].push_back(static_cast<double>(step.durations_ns[i]));
  }
  std::vector<std::int64_t> ideal(job.types.size(), 0);
  for (std::size_t type = 0; type < ideal.size(); ++type) {
    if (of_type[type].empty()) continue;
    const double value =
        job.types[type].communication ? Median(of_type[type]) : Mean(of_type[type]);
    ideal[type] = static_cast<std::int64_t>(value);
  }
  return ideal;
}

double Recorded(const JobStep& step) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
  for (const WorkerStep& worker : step.workers) {
    begin = std::min(begin, worker.begin_ns);
    end = std::max(end, worker.end_ns);
  }
  return step.workers.empty() ? 0 : static_cast<double>(end) - static_cast<double>(begin);
}

class Computer {
 public:
  Computer(const Job& job, Replays& replays)
      : job_(job), replays_(replays), ideal_(IdealDurations(job, replays)) {
    for (const ReplayedStep& step : replays.steps()) {
      result_.steps.push_back(job.steps[step.index].number);
      result_.recorded_ns.push_back(Recorded(job.steps[step.index]));
      result_.replayed_ns.push_back(static_cast<double>(step.time_ns));
    }
    result_.ideal_ns = Times([](const Operation&) { return false; });
    result_.slowdown = Ratio(Mean(result_.replayed_ns), Mean(result_.ideal_ns));
  }

  // The slowdown by each part that has a name; PartOf gives the number of an operation's part.
  template <typename PartOf>
  std::vector<PartSlowdown> By(const std::vector<std::string>& names, PartOf part_of) {
    std::vector<PartSlowdown> parts;
    for (std::size_t part = 0; part < names.size(); ++part) {
      if (names[part].empty()) continue;
      const auto times = Times([&](const Operation& o) { return part_of(o) == part; });
      PartSlowdown slowdown{.part = names[part],
                            .slowdown = Ratio(Mean(times), Mean(result_.ideal_ns))};
      for (std::size_t i = 0; i < times.size(); ++i)
        slowdown.by_step.push_back(Ratio(times[i], result_.ideal_ns[i]));
      parts.push_back(std::move(slowdown));
    }
    return parts;
  }

  // The share of the slowdown that disappears if these operations take their ideal durations.
  template <typename Ideal>
  std::optional<double> ShareOf(Ideal ideal) {
    const double lost = Mean(result_.replayed_ns) - Mean(result_.ideal_ns);
    if (lost <= 0) return std::nullopt;
    const auto times = Times([&](const Operation& operation) { return !ideal(operation); });
    return (Mean(result_.replayed_ns) - Mean(times)) / lost;
  }

  SlowdownParts& result() { return result_; }

 private:
  static double Ratio(double a, double b) { return b > 0 ? a / b : 1; }

  // The step times if only operations for which `keeps` is true keep their own durations.
  template <typename Keeps>
  std::vector<double> Times(Keeps keeps) {
    std::vector<double> times;
    for (const ReplayedStep& step : replays_.steps()) {
      const auto& operations = job_.steps[step.index].operations;
      times.push_back(static_cast<double>(replays_.Time(step, [&](std::size_t i) {
        return keeps(operations[i]) ? step.durations_ns[i] : ideal_[operations[i].type];
      })));
    }
    return times;
  }

  const Job& job_;
  Replays& replays_;
  const std::vector<std::int64_t> ideal_;
  SlowdownParts result_{};
};

// The number of the worker's replica, which its name tells: "replica 0, stage 3".
std::uint32_t ReplicaOf(const JobWorker& worker) {
  constexpr std::string_view kPrefix = "replica ";
  return static_cast<std::uint32_t>(
      std::strtoul(worker.name.substr(kPrefix.size()).c_str(), nullptr, 10));
}

// The names of the parts that workers belong to, such as "stage 3". Names of numbers that no worker
// has are empty. Empty if all workers belong to one part.
template <typename PartOf>
std::vector<std::string> PartNames(const Job& job, const char* word, PartOf part_of) {
  std::vector<std::string> names;
  std::size_t different = 0;
  for (const JobWorker& worker : job.workers) {
    const std::size_t part = part_of(worker);
    if (names.size() <= part) names.resize(part + 1);
    different += names[part].empty();
    names[part] = StrCat(word, " ", part);
  }
  return different > 1 ? names : std::vector<std::string>();
}

void AddStages(const Job& job, Computer& computer) {
  const auto stages = PartNames(job, "stage", [](const JobWorker& worker) { return worker.stage; });
  if (stages.empty()) return;
  SlowdownParts& result = computer.result();
  result.by_stage = computer.By(
      stages, [&](const Operation& operation) { return job.workers[operation.worker].stage; });
  std::vector<std::uint32_t> replicas;
  for (const JobWorker& worker : job.workers) replicas.push_back(ReplicaOf(worker));
  result.by_replica =
      computer.By(PartNames(job, "replica", ReplicaOf),
                  [&](const Operation& operation) { return replicas[operation.worker]; });
  const auto last = static_cast<std::uint32_t>(stages.size() - 1);
  result.last_stage_share = computer.ShareOf(
      [&](const Operation& operation) { return job.workers[operation.worker].stage == last; });
}

}  // namespace

std::optional<SlowdownParts> ComputeSlowdownParts(const Job& job, Replays& replays) {
  constexpr std::size_t kMaxReplayed = 20'000'000;
  if (replays.steps().empty()) return std::nullopt;
  Computer computer(job, replays);
  SlowdownParts& result = computer.result();
  AddStages(job, computer);
  std::vector<std::string> types;
  for (const OperationType& type : job.types) types.push_back(type.name);
  std::size_t operations = 0;
  for (const JobStep& step : job.steps) operations += step.operations.size();
  const std::size_t most = kMaxReplayed / std::max<std::size_t>(operations, 1);
  if (types.size() <= most)
    result.by_type = computer.By(types, [](const Operation& operation) { return operation.type; });
  if (job.workers.size() > 1 && job.workers.size() <= most) {
    std::vector<std::string> workers;
    for (const JobWorker& worker : job.workers) workers.push_back(NameOf(worker));
    result.by_worker =
        computer.By(workers, [](const Operation& operation) { return operation.worker; });
    const auto slowest =
        std::max_element(result.by_worker.begin(), result.by_worker.end(),
                         [](const auto& a, const auto& b) { return a.slowdown < b.slowdown; });
    const auto index = static_cast<std::uint32_t>(slowest - result.by_worker.begin());
    result.slowest_worker_share =
        computer.ShareOf([&](const Operation& operation) { return operation.worker == index; });
  }
  return std::move(result);
}

}  // namespace strobe::report
