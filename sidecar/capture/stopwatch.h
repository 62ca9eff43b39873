// Measures how long each stage of a capture takes.
#pragma once
#include <cstdint>
#include <utility>

#include "common/base/clock.h"

namespace strobe::session {

class Stopwatch {
 public:
  explicit Stopwatch(const Clock& clock) : clock_(clock), stage_(clock.MonoNow()) {}
  // The time since the last call, in ns.
  std::int64_t Lap() {
    const MonoTime now = clock_.MonoNow();
    return (now - std::exchange(stage_, now)).count();
  }

 private:
  const Clock& clock_;
  MonoTime stage_;
};

}  // namespace strobe::session
