// An interface to the clocks, so that unit tests can simulate time. Wall time is stamped on traces
// and differs between machines. Monotonic time is for waiting. The two are different types, so that
// they cannot be mixed.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace strobe {

using Nanos = std::chrono::nanoseconds;
using WallTime = std::chrono::sys_time<Nanos>;
using MonoTime = std::chrono::time_point<std::chrono::steady_clock, Nanos>;

// Safe for concurrent use.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime WallNow() const = 0;
  virtual MonoTime MonoNow() const = 0;
};

class SystemClock final : public Clock {
 public:
  WallTime WallNow() const override;
  MonoTime MonoNow() const override;
};

inline std::int64_t ToUnixNanos(WallTime time) { return time.time_since_epoch().count(); }
inline WallTime FromUnixNanos(std::int64_t nanos) { return WallTime{Nanos{nanos}}; }

// How far wall clocks of one cluster may differ. A time of the past that is further ahead than this
// was written by a clock that was wrong.
inline constexpr Nanos kClocksDiffer = std::chrono::minutes(1);

// Returns the deadline `duration` from now, as a gRPC time point.
inline std::chrono::system_clock::time_point DeadlineIn(Nanos duration) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(duration);
}

// Formats a time as "2026-11-21T08:30:00Z", with `decimals` (0 to 9) digits after the second.
std::string FormatRfc3339(WallTime time, int decimals = 0);
// Accepts what FormatRfc3339 writes. False for any other text, and for times before 1970 or after
// 2100. The upper limit leaves room for additions, because nanoseconds overflow in 2262.
bool ParseRfc3339(const std::string& text, WallTime& time);

}  // namespace strobe
