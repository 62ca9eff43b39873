#include "common/base/clock.h"

#include <time.h>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

// Calls libc's clock_gettime because std::chrono's call may be inlined to the vDSO. Integration
// tests shift a worker's wall clock with a preloaded library that replaces clock_gettime.
Nanos Read(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return std::chrono::seconds{now.tv_sec} + Nanos{now.tv_nsec};
}

}  // namespace

WallTime SystemClock::WallNow() const { return WallTime{Read(CLOCK_REALTIME)}; }
MonoTime SystemClock::MonoNow() const { return MonoTime{Read(CLOCK_MONOTONIC)}; }

std::string FormatRfc3339(WallTime time, int decimals) {
  const absl::Time at = absl::FromUnixNanos(ToUnixNanos(time));
  std::string text = absl::FormatTime("%Y-%m-%dT%H:%M:%S", at, absl::UTCTimeZone());
  if (decimals > 0) {
    std::int64_t nanos = ToUnixNanos(time) % 1'000'000'000;
    if (nanos < 0) nanos += 1'000'000'000;
    text += "." + absl::StrFormat("%09d", nanos).substr(0, static_cast<std::size_t>(decimals));
  }
  return StrCat(text, "Z");
}

bool ParseRfc3339(const std::string& text, WallTime& time) {
  absl::Time parsed;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &parsed, &error)) return false;
  const absl::Time latest = absl::FromUnixSeconds(4'102'444'800);  // 2100.
  if (parsed < absl::UnixEpoch() || parsed > latest) return false;
  time = FromUnixNanos(absl::ToUnixNanos(parsed));
  return true;
}

}  // namespace strobe
