#include "collector/trace/report/what_if.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "absl/status/status.h"
#include "collector/trace/report/robust.h"
#include "common/base/saturated.h"
#include "common/base/strings.h"

namespace strobe::report {
namespace {

// The operations of a step by what begins together: the collectives first, then those alone.
struct Units {
  std::vector<std::uint32_t> of{};     // The unit of each operation.
  std::vector<std::uint32_t> first{};  // Where each unit begins in `members`; one more for the end.
  std::vector<std::uint32_t> members{};  // Operations.
};

Units UnitsOf(const JobStep& step) {
  Units units;
  auto count = static_cast<std::uint32_t>(step.collectives.size());
  units.of.reserve(step.operations.size());
  for (const Operation& operation : step.operations)
    units.of.push_back(operation.collective == kAlone ? count++ : operation.collective);
  units.first.assign(count + 1, 0);
  for (const std::uint32_t unit : units.of) ++units.first[unit + 1];
  for (std::uint32_t unit = 0; unit < count; ++unit) units.first[unit + 1] += units.first[unit];
  units.members.resize(step.operations.size());
  std::vector<std::uint32_t> next(units.first.begin(), units.first.end() - 1);
  for (std::uint32_t i = 0; i < units.of.size(); ++i) units.members[next[units.of[i]]++] = i;
  return units;
}

// Visits units such that each follows all that its members wait for. An explicit stack, because the
// chain of a step can be as long as the step has operations.
class DepthFirst {
 public:
  DepthFirst(const JobStep& step, const Units& units)
      : step_(step), units_(units), state_(units.first.size() - 1, kNew) {}

  // Appends the unit and all units before it that are not there yet; false for a circle.
  bool Visit(std::uint32_t unit, std::vector<std::uint32_t>& order) {
    if (state_[unit] == kDone) return true;
    Open(unit);
    while (!stack_.empty()) {
      Frame& top = stack_.back();
      if (top.member == units_.first[top.unit + 1]) {
        state_[top.unit] = kDone;
        order.push_back(top.unit);
        stack_.pop_back();
        continue;
      }
      const auto after = step_.After(units_.members[top.member]);
      if (top.next == after.size()) {
        ++top.member;
        top.next = 0;
        continue;
      }
      const std::uint32_t before = units_.of[after[top.next++]];
      if (state_[before] == kOpen) return false;
      if (state_[before] == kNew) Open(before);
    }
    return true;
  }

 private:
  enum State : std::uint8_t { kNew, kOpen, kDone };
  struct Frame {
    std::uint32_t unit, member;  // `member` is an index into Units::members.
    std::size_t next;            // An index into what the member waits for: what is visited next.
  };

  void Open(std::uint32_t unit) {
    state_[unit] = kOpen;
    stack_.push_back({unit, units_.first[unit], 0});
  }

  const JobStep& step_;
  const Units& units_;
  std::vector<State> state_;
  std::vector<Frame> stack_{};
};

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

absl::StatusOr<StepGraph> StepGraph::Make(const JobStep& step) {
  const Units units = UnitsOf(step);
  const auto count = static_cast<std::uint32_t>(units.first.size() - 1);
  std::vector<std::uint32_t> order;
  order.reserve(count);
  DepthFirst search(step, units);
  for (std::uint32_t unit = 0; unit < count; ++unit) {
    if (!search.Visit(unit, order))
      return absl::InvalidArgumentError(
          StrCat("operations of step ", step.number, " wait for each other in a circle"));
  }
  StepGraph graph;
  graph.order_.reserve(step.operations.size());
  for (const std::uint32_t unit : order) {
    for (std::uint32_t i = units.first[unit]; i < units.first[unit + 1]; ++i) {
      const std::uint32_t operation = units.members[i];
      graph.order_.push_back(operation);
      graph.first_after_.push_back(static_cast<std::uint32_t>(graph.after_.size()));
      const auto after = step.After(operation);
      graph.after_.insert(graph.after_.end(), after.begin(), after.end());
    }
    graph.unit_ends_.push_back(static_cast<std::uint32_t>(graph.order_.size()));
  }
  graph.first_after_.push_back(static_cast<std::uint32_t>(graph.after_.size()));
  return graph;
}

std::int64_t StepGraph::Replay(std::span<const std::int64_t> durations_ns,
                               std::span<std::int64_t> ends_ns) const {
  std::int64_t step_end = 0;
  std::uint32_t place = 0;
  for (const std::uint32_t unit_end : unit_ends_) {
    std::int64_t begin = 0;
    for (std::uint32_t i = first_after_[place]; i < first_after_[unit_end]; ++i)
      begin = std::max(begin, ends_ns[after_[i]]);
    for (; place < unit_end; ++place) {
      const std::int64_t end = AddSaturated(begin, durations_ns[order_[place]]);
      ends_ns[order_[place]] = end;
      step_end = std::max(step_end, end);
    }
  }
  return step_end;
}

std::vector<std::int64_t> OwnDurations(const Job& job, const JobStep& step) {
  struct Call {
    std::int64_t last_begin = std::numeric_limits<std::int64_t>::min();
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
    bool one_clock = true;
  };
  std::vector<Call> calls(step.collectives.size());
  for (const Operation& operation : step.operations) {
    if (operation.collective == kAlone) continue;
    Call& call = calls[operation.collective];
    call.last_begin = std::max(call.last_begin, operation.begin_ns);
    call.shortest = std::min(call.shortest, AddSaturated(operation.end_ns, -operation.begin_ns));
    call.one_clock &= job.workers[operation.worker].clock_error_ns == 0;
  }
  std::vector<std::int64_t> durations;
  durations.reserve(step.operations.size());
  for (const Operation& operation : step.operations) {
    std::int64_t duration = AddSaturated(operation.end_ns, -operation.begin_ns);
    if (operation.collective != kAlone && job.types[operation.type].communication) {
      const Call& call = calls[operation.collective];
      duration = call.one_clock ? AddSaturated(operation.end_ns, -call.last_begin) : call.shortest;
    }
    durations.push_back(std::max<std::int64_t>(duration, 0));
  }
  return durations;
}

Replays::Replays(const Job& job) {
  std::size_t largest = 0;
  for (const JobStep& step : job.steps) largest = std::max(largest, step.operations.size());
  changed_.resize(largest);
  ends_.resize(largest);
  for (std::size_t i = 0; i < job.steps.size(); ++i) {
    const JobStep& step = job.steps[i];
    if (step.operations.empty()) continue;
    auto graph = StepGraph::Make(step);
    if (!graph.ok()) {
      ++circles_;
      continue;
    }
    ReplayedStep replayed{
        .index = i, .graph = *std::move(graph), .durations_ns = OwnDurations(job, step)};
    replayed.time_ns = replayed.graph.Replay(replayed.durations_ns, ends_);
    steps_.push_back(std::move(replayed));
  }
}

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
