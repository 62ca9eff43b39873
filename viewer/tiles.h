// Windows of many rows as bytes for the page.
//
// All numbers are varints; s = zigzag. A unit is 2^max(level - 6, 0) ps: a 64th of a slot.
//   1 (version), tracks
//   per track: row, track within the row, kind (0 spans, 1 counter), items, s phase
//   texts: count, then per text its length and its bytes
//   of all spans, column by column: begin less that of the item before on its track; length * 4 + 1
//     when it reaches in from before + 2 when it goes on behind; text; count; busy (a byte, 0 to
//     255)
//   of all samples: at less the one before; then least, most, last as 64-bit floats
// Times count from the window's begin plus the track's phase, in units. Workers' clocks do not meet
// on slots; the phase is what is left.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "viewer/loaded_run.h"

namespace strobe::viewer {

struct TileRequest {
  std::vector<std::uint32_t> rows{};  // Numbers within the run.
  std::int64_t begin_ps = 0;          // On the run's clock.
  std::uint32_t level = 0;            // A slot is 2^level ps; at most 56.
  std::uint32_t slots = 0;            // At most kMostSlots.
};
inline constexpr std::uint32_t kMostSlots = 4096, kMostLevel = 56;

std::string EncodeTiles(const LoadedRun& run, const TileRequest& request);

}  // namespace strobe::viewer
