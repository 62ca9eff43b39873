// Durations as people write them in a ProfileRequest or on a command line.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe {

// Longer durations are shortened to this, about 100 years. Two of them can be added to the current
// time without an overflow.
inline constexpr Nanos kMaxDuration = std::chrono::hours(100 * 365 * 24);

// Parses "2s", "500ms", "1m30s", "1.5h" or "0". The units are ns, us, ms, s, m and h. The result is
// between 0 and kMaxDuration. InvalidArgument for any other text.
absl::StatusOr<Nanos> ParseDuration(std::string_view text);

// Formats a duration to be read, with three significant digits and a suitable unit: "1.02ms",
// "-80us", "2s". From one minute on it shows whole seconds: "1m30s".
std::string FormatDuration(Nanos duration);

}  // namespace strobe
