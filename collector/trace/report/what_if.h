// The time that steps would take if some workers worked like the median of the others, or all
// alike.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/report/operations.h"

namespace strobe::report {

// What each operation of a step waits for, in an order in which the step can be replayed.
class StepGraph {
 public:
  // InvalidArgument if operations wait for each other in a circle, as they can when calls of two
  // communicators were matched wrongly.
  static absl::StatusOr<StepGraph> Make(const JobStep& step);

  // The time that the step takes if each operation begins as soon as it can and then takes its
  // duration, in the order of the step's operations. The operations of one collective begin
  // together, when the last of them could begin. Fills in when each operation ends, from the step's
  // begin. `ends` has room for each operation.
  std::int64_t Replay(std::span<const std::int64_t> durations_ns,
                      std::span<std::int64_t> ends_ns) const;

 private:
  // Operations that begin together follow each other; each such unit ends where unit_ends_ says.
  std::vector<std::uint32_t> order_{};
  std::vector<std::uint32_t> unit_ends_{};
  // For each place in order_, where what it waits for begins in after_.
  std::vector<std::uint32_t> first_after_{};
  std::vector<std::uint32_t> after_{};
};

// What each operation of the step takes by itself, in ns. Of a communication it is the transfer,
// from when the last member began to its end:
//   - Where all members' times are those of one clock (their error is 0), the difference of these
//     two times. A negative difference counts as 0.
//   - Otherwise the shortest duration of all members. The last of them waits for nobody, and its
//     own clock tells how long the transfer took, so no clock's error matters. Errors that differ
//     between workers would add up from call to call.
std::vector<std::int64_t> OwnDurations(const Job& job, const JobStep& step);

// A step as it was recorded, ready to be replayed.
struct ReplayedStep {
  std::size_t index = 0;  // In Job::steps.
  StepGraph graph{};
  std::vector<std::int64_t> durations_ns{};  // OwnDurations of the step.
  std::int64_t time_ns = 0;                  // How long the replay with them takes.
};

class Replays {
 public:
  // Replays each step of the job, which must live longer. Steps whose operations wait for each
  // other in a circle are left out; circles() tells how many.
  explicit Replays(const Job& job);

  std::span<const ReplayedStep> steps() const { return steps_; }
  std::size_t circles() const { return circles_; }

  // The time of a step in which operation i takes duration(i) ns.
  template <typename Duration>
  std::int64_t Time(const ReplayedStep& step, Duration duration) {
    const std::size_t size = step.durations_ns.size();
    for (std::size_t i = 0; i < size; ++i) changed_[i] = duration(i);
    return step.graph.Replay(std::span(changed_).first(size), ends_);
  }

 private:
  std::vector<ReplayedStep> steps_{};
  std::size_t circles_ = 0;
  std::vector<std::int64_t> changed_{}, ends_{};  // Room for the largest step.
};

inline constexpr std::int32_t kNotChanged = -1;

// Times of the replayed steps, in ns.
struct MedianTimes {
  std::vector<double> replayed{};    // With the recorded durations.
  std::vector<double> all_median{};  // If all changed workers were the median.
  // For each group of workers, if all other groups were the median and it alone was not.
  std::vector<std::vector<double>> only{};
};

// group_of tells of each worker to which group of changed workers it belongs, or kNotChanged. The
// local operations of a changed worker take the median duration of their type in the step, over the
// workers of its stage that are not changed. Where there is none, they keep their own.
MedianTimes ReplayWithMedians(const Job& job, Replays& replays,
                              std::span<const std::int32_t> group_of, std::size_t groups);

// By how much some workers lengthen a step.
struct HeldUp {
  double ns = 0;        // In the mean.
  double error_ns = 0;  // Half-width of its 95 % interval, from the differences of the steps.
  double share = 0;     // The share of the replayed step.
  std::size_t steps = 0;
};
// The difference of two series of MedianTimes.
HeldUp DifferenceOf(const std::vector<double>& longer, const std::vector<double>& shorter,
                    const std::vector<double>& replayed);

// How much slower the job is than one in which all workers are alike: the mean replayed step,
// divided by one in which every operation takes the mean or, for communication, the median of its
// type over all workers and steps. This is S of "Understanding Stragglers in Large Model Training
// Using What-if Analysis" (ByteDance and others, 2025). nullopt if no step could be replayed.
std::optional<double> ComputeSlowdown(const Job& job, Replays& replays);

}  // namespace strobe::report
