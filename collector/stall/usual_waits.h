// How long a rank has waited in a collective, and how long it does so when all is well.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/stall/evidence.h"
#include "collector/stall/wait_graph.h"

namespace strobe::stall {

// A shorter wait tells nothing. The sign of a stall takes three seconds from the last step.
inline constexpr std::int64_t kShortWaitNs = 2'000'000'000;

// From each collective of the group to the next one on this rank, of those with a number above
// `behind` and below this one's.
std::vector<std::int64_t> GapsBefore(const OpenOp& op, std::int64_t behind = 0);

// Empty if it is not known when the rank was looked at.
std::optional<std::int64_t> WaitedNs(const JobEvidence& evidence, const Wait& wait);

enum class WaitLength : std::uint8_t {
  kUnknown,
  kUsual,   // Many gaps between the group's collectives were longer.
  kMayEnd,  // It is short, or not much longer than the longest of them.
  kLong
};
WaitLength LengthOf(const JobEvidence& evidence, const Wait& wait);

// "rank 0 has waited for 2.1s, and up to 2.5s lay between two of these before"
std::string UsualText(const JobEvidence& evidence, const Wait& wait);

}  // namespace strobe::stall
