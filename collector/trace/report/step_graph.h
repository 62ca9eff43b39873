// What each operation of a step waits for, in an order in which the step can be replayed.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/report/operations.h"

namespace strobe::report {

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

}  // namespace strobe::report
