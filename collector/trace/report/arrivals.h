// Who arrived last at the collectives of a job, and how long the others waited.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collector/trace/report/operations.h"

namespace strobe::report {

// Who arrived last at one collective.
struct LastArrival {
  // Operation of the member that arrived last, in JobStep::operations.
  std::uint32_t last = 0;
  // How long after the second member it arrived on the common clock, and by how much the clocks of
  // all members can change that. nullopt: a member's clock is not measured.
  std::int64_t ahead_ns = 0;
  std::optional<std::int64_t> error_ns{};
  // The sum of the waits of all members, in ns: what each of their devices lost.
  std::int64_t waited_ns = 0;
  std::size_t members = 0;  // All of them, also those that are on no common clock.
  // The clocks do not tell who was last, but the durations do; see call_durations.h. By how much
  // the waits can be wrong then, in ns.
  std::optional<std::int64_t> duration_error_ns{};

  // Is it known who was last?
  bool decided() const { return duration_error_ns || (error_ns && ahead_ns > *error_ns); }
};

// How long an operation of the step waited for the one that arrived last at its collective, in ns;
// 0 if neither clocks nor durations tell it. It is never longer than the operation itself, whatever
// the clocks say, and 0 for a rooted one that did not need the last.
std::int64_t WaitOf(const Job& job, const JobStep& step, const Operation& operation,
                    const LastArrival& arrival);

// Returns one for each collective of the step; nullopt for those with fewer than two members.
std::vector<std::optional<LastArrival>> LastArrivals(const Job& job, const JobStep& step);

// How often one worker came last, over all steps.
struct WorkerArrivals {
  std::size_t calls = 0;          // Collectives with at least two members.
  std::size_t decided = 0;        // Collectives of which it is known who arrived last.
  std::size_t last = 0;           // How often it is known to have arrived last.
  std::int64_t waited_ns = 0;     // How long it waited for others.
  std::int64_t made_wait_ns = 0;  // How long others waited where it is known to have been last.
};

// Who came last at the calls of one type on one communicator, over all steps.
struct CallArrivals {
  std::uint32_t communicator = 0, type = 0;
  std::size_t calls = 0;
  std::size_t undecided = 0;  // Calls of which it is not known who arrived last.
  std::int64_t waited_ns = 0;
  std::uint32_t most_often_last = 0;  // A worker; of several the first.
  std::size_t times_last = 0;         // How often it was; 0: nobody is known to have been last.
};

struct Arrivals {
  std::vector<WorkerArrivals> workers{};  // In the order of Job::workers.
  std::vector<CallArrivals> calls{};      // The one that was waited for longest first.
  // For each step, how long each of its workers waited, in the order of JobStep::workers.
  std::vector<std::vector<std::int64_t>> waited_ns{};
};
Arrivals ComputeArrivals(const Job& job);

}  // namespace strobe::report
