// What is known of a worker's clock. Pure.
#pragma once
#include <optional>

#include "common/base/clock.h"

namespace strobe {

// One measurement.
struct ClockEstimate {
  WallTime at{};                // When it was made, on the operator's clock.
  Nanos offset{};               // Worker clock minus operator clock.
  Nanos error{};                // Half-width of the offset's error interval.
  Nanos wall_less_monotonic{};  // The worker's clocks at that moment; 0 = not known.
};

// An offset at one time of the operator's clock.
struct ClockOffset {
  WallTime at{};
  Nanos offset{};
  std::optional<Nanos> error{};  // Half-width of its error interval; none = not measured.
};

// The largest rate at which two clocks are taken to drift apart: crystals of 50 ppm each.
inline constexpr std::int64_t kMaxDriftPerMillion = 100;

// The offset at `when`, from what was measured before and, if that succeeded, after a recording.
// Its error is the smaller one of two bounds. One assumes that clocks drift at most
// kMaxDriftPerMillion from either measurement; the other, that the offset only grew or only shrank
// between the two.
ClockOffset OffsetAt(WallTime when, const ClockOffset& before,
                     const std::optional<ClockOffset>& after);

}  // namespace strobe
