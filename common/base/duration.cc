#include "common/base/duration.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/base/strings.h"

namespace strobe {

absl::StatusOr<Nanos> ParseDuration(std::string_view text) {
  absl::Duration duration;
  const bool parsed = absl::ParseDuration(ToAbsl(text), &duration);
  if (!parsed || duration == absl::InfiniteDuration() || duration < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(StrCat(
        "\"", text,
        "\" is not a duration; write a number and a unit (ns, us, ms, s, m, h), such as 2s"));
  }
  // ToInt64Nanoseconds saturates instead of overflowing.
  return std::min(Nanos{absl::ToInt64Nanoseconds(duration)}, kMaxDuration);
}

std::string FormatDuration(Nanos duration) {
  struct Unit {
    double nanos;
    const char* name;
  };
  static constexpr std::array<Unit, 4> kUnits = {{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}}};
  const double nanos = static_cast<double>(duration.count());
  if (nanos == 0) return "0s";
  if (std::abs(nanos) >= 60e9)
    return absl::FormatDuration(absl::Seconds(duration / std::chrono::seconds(1)));
  for (const Unit& unit : kUnits) {
    if (std::abs(nanos) >= unit.nanos) {
      return StrCat(absl::StrFormat("%.3g", nanos / unit.nanos), unit.name);
    }
  }
  return "0s";
}

}  // namespace strobe
