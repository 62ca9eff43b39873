// Which workers hold up the others of their job, by how much and why: the report's answer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/trace/report/arrivals.h"
#include "collector/trace/report/late_workers.h"
#include "collector/trace/report/operations.h"
#include "collector/trace/report/parallel_times.h"
#include "collector/trace/report/what_if.h"

namespace strobe::report {

// What is known about a worker that takes longer than the others.
enum class Verdict : std::uint8_t {
  kHoldsUp,            // Others wait for it.
  kNobodyWaits,        // It takes longer, but steps would not be shorter without that.
  kWithinClockErrors,  // The clocks' errors are larger than the difference.
  kClockNotMeasured,   // Its own clock, or those of all others, are not measured.
  kNoCalls,            // The traces tell no call in which anybody could wait for it.
};

// What tells that others wait for a worker.
enum class Evidence : std::uint8_t {
  kClocks,     // It arrives last on the common clock.
  kDurations,  // The others spend longer in the calls that they make with it; see call_durations.h.
};

struct Straggler {
  Late late{};  // late.who is in Job::workers.
  Verdict verdict = Verdict::kHoldsUp;
  Evidence evidence = Evidence::kClocks;  // For kHoldsUp.
  // By how much the two clocks that are compared can differ; nullopt: not measured.
  std::optional<double> clock_error_ns{};
  // How much longer steps are because of this worker alone, if all other stragglers were the
  // median. nullopt where it was not computed.
  std::optional<HeldUp> held_up{};
};

struct StragglerReport {
  std::size_t workers = 0;
  std::size_t steps = 0;  // How many were compared.
  double step_ns = 0;     // The mean duration.
  // The one who holds up others most first. At most kMaxTold each, of `late_count`.
  std::vector<Straggler> stragglers{};
  bool likely = false;  // There are too few steps to be sure of the stragglers; see FindLikely.
  std::vector<Straggler> not_decided{};  // Workers with any other verdict.
  std::size_t late_count = 0;
  // How much longer steps are because of all stragglers together.
  HeldUp held_up{};
  // The smallest difference of a worker that would have been told, in ns of a step; 0 = none.
  double smallest_ns = 0;
  std::size_t compared = 0;  // Workers that have another one of their stage beside them.
  Arrivals arrivals{};
  std::vector<GroupTime> groups{};
  std::vector<StageTime> stages{};
  std::optional<double> slowdown{};    // See ComputeSlowdown.
  std::vector<std::string> unknown{};  // What cannot be known, in sentences.
};
inline constexpr std::size_t kMaxTold = 16;

StragglerReport FindStragglers(const Job& job);

}  // namespace strobe::report
