// Time as a port. Wall time is what clocks of different machines disagree about and what traces are
// stamped with; monotonic time is for waiting. The two are different types and never mix.
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

// So far from now, as gRPC takes deadlines.
inline std::chrono::system_clock::time_point DeadlineIn(Nanos duration) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(duration);
}

// "2026-11-21T08:30:00Z", with as many decimals of a second as asked (0 to 9).
std::string FormatRfc3339(WallTime time, int decimals = 0);
// Accepts what FormatRfc3339 writes; false when the text is anything else, or a time that is not
// between 1970 and 2100: nanoseconds end in 2262, and something has to be added to most times.
bool ParseRfc3339(const std::string& text, WallTime& time);

}  // namespace strobe
