// What was read of a trace file, and what could not be.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::kineto {

struct ReadReport {
  std::uint64_t bytes = 0;                    // The size of the JSON.
  std::uint64_t events = 0;                   // Objects that could be read, of all phases.
  std::uint64_t spans = 0;                    // Events of the planes.
  std::uint64_t recorded = 0;                 // Events of all but what Kineto says of itself.
  std::uint64_t flows = 0, joined_flows = 0;  // Ends of arrows; those that correlation ids say too.
  std::uint64_t allocations = 0;              // Kineto's events of memory.

  std::uint64_t loose_flows = 0;  // Ends of arrows where no event is.

  // Events that could not be read, and why. Where one that is malformed hides the next ones, they
  // count as one. `malformed_at` is the place of the first one in the JSON.
  std::uint64_t malformed = 0, too_large = 0, no_phase = 0, bad_time = 0;
  std::uint64_t malformed_bytes = 0, malformed_at = 0;
  std::uint64_t unmatched_ends = 0;  // Ends of events whose beginning is not in the file.

  // Events that are there, but not as they were.
  std::uint64_t repaired = 0;         // Bytes were replaced that JSON does not permit.
  std::uint64_t unfinished = 0;       // They had no end and last until the trace's end.
  std::uint64_t negative = 0;         // Their duration was negative and is 0.
  std::uint64_t unowned_devices = 0;  // It is not known which process launched their work.
  std::uint64_t cut_values = 0;       // Members of the file that were too long.
  std::uint64_t stray_bytes = 0;      // Bytes that belong to nothing.
  bool cut = false;                   // The file ends before its JSON does.
  bool compressed_cut = false;        // The compressed file ends early or is damaged.

  std::uint64_t unread() const {
    return malformed + too_large + no_phase + bad_time + unmatched_ends;
  }
};

// What to do about a file that is cut.
inline constexpr std::string_view kCutRemedy =
    "copy the file again or, if it was cut while it was recorded, record again";

// One sentence for each thing that a user should know; none if the whole file was read.
std::vector<std::string> Warnings(const ReadReport& report);

}  // namespace strobe::kineto
