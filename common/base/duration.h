// Durations as people write them in a ProfileRequest or on a command line.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe {

// What is longer counts as this: about a hundred years. Two of them and a present time can be added
// without an overflow.
inline constexpr Nanos kMaxDuration = std::chrono::hours(100 * 365 * 24);

// "2s", "500ms", "1m30s", "1.5h"; units ns us ms s m h; a plain "0" too. Never negative, at most
// kMaxDuration.
absl::StatusOr<Nanos> ParseDuration(std::string_view text);

// For people: three significant digits and the unit that fits, such as "1.02ms", "-80us", "2s";
// from a minute on whole seconds, such as "1m30s".
std::string FormatDuration(Nanos duration);

}  // namespace strobe
