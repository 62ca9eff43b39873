#include "common/base/clock_steps.h"

namespace strobe {
namespace {

constexpr Nanos kMinStep = std::chrono::milliseconds(1);

}  // namespace

Nanos WallLessMonotonic(const Clock& clock) {
  constexpr int kReadings = 5;
  constexpr Nanos kGoodEnough = std::chrono::microseconds(20);
  Nanos difference{0}, narrowest = Nanos::max();
  for (int i = 0; i < kReadings && narrowest > kGoodEnough; ++i) {
    const Nanos before = clock.MonoNow().time_since_epoch();
    const Nanos wall = clock.WallNow().time_since_epoch();
    const Nanos after = clock.MonoNow().time_since_epoch();
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    difference = wall - before - narrowest / 2;
  }
  return difference;
}

ClockSteps::ClockSteps(const Clock& clock) : clock_(clock), difference_(WallLessMonotonic(clock)) {}

Nanos ClockSteps::Since() const {
  const Nanos step = WallLessMonotonic(clock_) - difference_;
  return step < kMinStep && step > -kMinStep ? Nanos{0} : step;
}

}  // namespace strobe
