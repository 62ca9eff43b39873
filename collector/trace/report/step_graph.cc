#include "collector/trace/report/step_graph.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
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

}  // namespace strobe::report
