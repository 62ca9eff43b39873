// What is known of a worker's clock. Pure.
#pragma once
#include <optional>

#include "common/base/clock.h"

namespace strobe::capture {

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

// The rate at which two clocks usually drift apart at most: crystals of 50 ppm each. It only weighs
// measurements against each other.
inline constexpr std::int64_t kUsualDriftPerMillion = 100;
// The largest rate at which a clock is pulled to the right time: Linux allows a tenth, and chrony
// uses most of it.
inline constexpr std::int64_t kMaxSlewPerMillion = 100'000;

// The offset at `when`, from what was measured before and, if that succeeded, after a recording.
// Its error assumes that the offset only grew or only shrank between the two measurements, and that
// it changed by at most kMaxSlewPerMillion since the first one and until the second one. So it is
// large without a second measurement: a clock may have been pulled meanwhile.
ClockOffset OffsetAt(WallTime when, const ClockOffset& before,
                     const std::optional<ClockOffset>& after);

}  // namespace strobe::capture
