// Encodes a window of many rows for the page; web/timeline/decode.js reads it.
//
// Numbers are varints; "s" marks zigzag-encoded ones, which may be negative. Times are in units of
// 2^max(level - 6, 0) ps, a 64th of a slot.
//   1 (the version), number of tracks
//   per track: row, track within the row, kind (0 spans, 1 counter), number of items, s phase
//   number of texts, then per text its length and its bytes
//   columns of all span items, each column over all tracks:
//     s begin, minus the begin of the item before it on its track
//     length * 4, + 1 if it began before the window, + 2 if it ends after the window
//     number of its text
//     count of the events that it stands for
//     busy: the share of its time that they fill, as one byte, 0 to 255
//   columns of all counter items:
//     s time, minus the time of the item before it on its track
//     least, most and last value, as three little-endian 64-bit floats
// Times of a track count from the window's begin plus the track's phase. Each worker's slots are
// aligned on its own clock, so that its items do not depend on the shift; the phase is the distance
// between its slots and the window's, 0 or less. A track holds all slots that the window touches:
// if its phase is not 0, the first of them is also the last one of the window before.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

struct TileRequest {
  std::vector<std::uint32_t> rows{};  // Numbers of the run's rows; unknown ones are left out.
  std::int64_t begin_ps = 0;          // On the run's clock.
  std::uint32_t level = 0;            // A slot is 2^level ps; at most kMaxLevel.
  std::uint32_t slots = 0;            // At most kMaxSlots.
};
inline constexpr std::uint32_t kMaxSlots = 4096, kMaxLevel = 56;

// Cancelled once `is_gone`, which may be null; it is asked between tracks. InvalidArgument if the
// answer would be too long.
absl::StatusOr<std::string> EncodeTiles(const LoadedRun& run, const TileRequest& request,
                                        const std::function<bool()>& is_gone);

}  // namespace strobe::viewer
