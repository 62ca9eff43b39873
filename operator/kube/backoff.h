// Computes the wait after consecutive failures: 0.8 s doubling to 30 s, with jitter, reset after
// two minutes without a failure. The numbers are client-go's.
#pragma once
#include <algorithm>
#include <random>

#include "common/base/clock.h"

namespace strobe::kube {

class Backoff {
 public:
  explicit Backoff(const Clock& clock) : clock_(clock), random_(std::random_device{}()) {}

  Nanos Next() {
    const MonoTime now = clock_.MonoNow();
    if (now - last_ > kForgetAfter) step_ = kFirst;
    last_ = now;
    const Nanos base = step_;
    step_ = std::min(step_ * 2, kMax);
    // Between one and two times the step, so that many clients do not return together.
    return base + Nanos{std::uniform_int_distribution<Nanos::rep>(0, base.count())(random_)};
  }

 private:
  static constexpr Nanos kFirst = std::chrono::milliseconds(800);
  static constexpr Nanos kMax = std::chrono::seconds(30);
  static constexpr Nanos kForgetAfter = std::chrono::minutes(2);

  const Clock& clock_;
  std::mt19937_64 random_;
  Nanos step_ = kFirst;
  MonoTime last_{};
};

}  // namespace strobe::kube
