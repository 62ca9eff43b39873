#include "collector/trace/report/what_if.h"

#include <cmath>
#include <unordered_map>

#include "collector/trace/report/robust.h"

namespace strobe::report {
namespace {

// The median durations of the types of operations that changed workers have in one step.
class StepMedians {
 public:
  StepMedians(const Job& job, const ReplayedStep& step, std::span<const std::int32_t> group_of)
      : job_(job) {
    const auto& operations = job.steps[step.index].operations;
    for (const Operation& operation : operations) {
      if (group_of[operation.worker] != kNotChanged && !Communicates(operation))
        durations_.try_emplace(KeyOf(operation));
    }
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (group_of[operations[i].worker] != kNotChanged) continue;
      const auto found = durations_.find(KeyOf(operations[i]));
      if (found != durations_.end())
        found->second.push_back(static_cast<double>(step.durations_ns[i]));
    }
    changed_ = step.durations_ns;
    std::unordered_map<std::uint64_t, std::int64_t> medians;
    for (auto& [key, values] : durations_) {
      if (!values.empty()) medians.emplace(key, static_cast<std::int64_t>(Median(values)));
    }
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (group_of[operations[i].worker] == kNotChanged || Communicates(operations[i])) continue;
      const auto found = medians.find(KeyOf(operations[i]));
      if (found != medians.end()) changed_[i] = found->second;
    }
  }

  // The durations with those of changed workers replaced.
  const std::vector<std::int64_t>& changed() const { return changed_; }

 private:
  bool Communicates(const Operation& operation) const {
    return job_.types[operation.type].communication;
  }
  std::uint64_t KeyOf(const Operation& operation) const {
    const std::uint64_t stage = job_.workers[operation.worker].stage;
    return stage << 32 | operation.type;
  }

  const Job& job_;
  std::unordered_map<std::uint64_t, std::vector<double>> durations_{};
  std::vector<std::int64_t> changed_{};
};

// The duration that operations of each type have in an ideal job.
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

}  // namespace

MedianTimes ReplayWithMedians(const Job& job, Replays& replays,
                              std::span<const std::int32_t> group_of, std::size_t groups) {
  MedianTimes times{.only = std::vector<std::vector<double>>(groups)};
  for (const ReplayedStep& step : replays.steps()) {
    const StepMedians medians(job, step, group_of);
    const auto& changed = medians.changed();
    const auto& operations = job.steps[step.index].operations;
    times.replayed.push_back(static_cast<double>(step.time_ns));
    times.all_median.push_back(
        static_cast<double>(replays.Time(step, [&](std::size_t i) { return changed[i]; })));
    for (std::size_t group = 0; group < groups; ++group) {
      const auto only = static_cast<std::int32_t>(group);
      times.only[group].push_back(static_cast<double>(replays.Time(step, [&](std::size_t i) {
        return group_of[operations[i].worker] == only ? step.durations_ns[i] : changed[i];
      })));
    }
  }
  return times;
}

HeldUp DifferenceOf(const std::vector<double>& longer, const std::vector<double>& shorter,
                    const std::vector<double>& replayed) {
  HeldUp held{.steps = longer.size()};
  std::vector<double> differences;
  for (std::size_t i = 0; i < longer.size(); ++i) differences.push_back(longer[i] - shorter[i]);
  const Spread spread = SpreadOf(differences);
  held.ns = spread.mean;
  held.error_ns = spread.half_width;
  const double step = Mean(replayed);
  held.share = step > 0 ? held.ns / step : 0;
  return held;
}

std::optional<double> ComputeSlowdown(const Job& job, Replays& replays) {
  if (replays.steps().empty()) return std::nullopt;
  const std::vector<std::int64_t> ideal = IdealDurations(job, replays);
  double replayed_ns = 0, ideal_ns = 0;
  for (const ReplayedStep& step : replays.steps()) {
    const auto& operations = job.steps[step.index].operations;
    replayed_ns += static_cast<double>(step.time_ns);
    ideal_ns += static_cast<double>(
        replays.Time(step, [&](std::size_t i) { return ideal[operations[i].type]; }));
  }
  return ideal_ns > 0 ? replayed_ns / ideal_ns : 1;
}

}  // namespace strobe::report
