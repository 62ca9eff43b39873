// What the durations of calls tell of who arrived last, where clocks do not tell it. Pure.
//
// All members of a call that is not rooted end it together, when the last one has come and the
// transfer is done. Whoever was in the call for the shortest time therefore arrived last. A
// duration is measured with the worker's own clock, so that no clock's offset matters. HTA's finder
// of stragglers rests on this too, and TraceLens takes the shortest kernel as the transfer.
#pragma once
#include <cstdint>
#include <vector>

#include "collector/trace/report/operations.h"

namespace strobe::report {

std::int64_t DurationOf(const Operation& operation);  // 0 for one that ends before it begins.

// The two shortest durations of one call's members.
struct CallDurations {
  std::uint32_t shortest = 0;  // An operation of the step.
  std::int64_t shortest_ns = 0, second_ns = 0;
  std::size_t members = 0;

  // By how much the ends of members can differ: the parts of a ring end it one after another,
  // within a part of the transfer.
  std::int64_t error_ns() const { return 20'000 + shortest_ns / 2; }
  // Is it known who was last? Only if one member took clearly less time than each other one.
  bool decided() const { return members >= 2 && second_ns - shortest_ns > error_ns(); }
};

// One for each collective of the step; those of rooted types have no members, because members of
// such calls may go on before the others have come.
std::vector<CallDurations> DurationsOfCalls(const Job& job, const JobStep& step);

// By how much less time each worker spent in the calls of a step than the median of the other
// members did, in ns: as much as they waited for it. One value for each step in which the worker
// took part in calls that are not rooted, in the order of Job::workers.
std::vector<std::vector<double>> ShorterInCalls(const Job& job);

}  // namespace strobe::report
