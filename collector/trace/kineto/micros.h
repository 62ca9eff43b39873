// Times of trace files: decimal numbers of microseconds, read exactly to the picosecond.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace strobe::kineto {

struct Micros {
  // The sum of both is the time. Whole microseconds since 1970 fit, picoseconds would not.
  std::int64_t us = 0;
  std::int32_t ps = 0;  // [0, 1,000,000)

  // Picoseconds since `us`; nullopt if they do not fit into 64 bits.
  std::optional<std::int64_t> PsSince(std::int64_t from_us) const;
};

// Parses a JSON number. Digits behind the picoseconds are rounded. nullopt for anything else, and
// for more than 292,000 years.
std::optional<Micros> ParseMicros(std::string_view text);

}  // namespace strobe::kineto
