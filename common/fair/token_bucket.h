// Limits a rate and lets bursts through. Not for concurrent use.
#pragma once
#include <algorithm>
#include <chrono>

#include "common/base/clock.h"

namespace strobe::fair {

class TokenBucket {
 public:
  // The bucket is full at first.
  TokenBucket(double per_second, double burst, MonoTime now)
      : per_second_(per_second), burst_(burst), tokens_(burst), refilled_(now) {}

  // Adds the tokens that are due since the last call.
  void Refill(MonoTime now) {
    const double seconds = std::chrono::duration<double>(now - refilled_).count();
    tokens_ = std::min(burst_, tokens_ + std::max(0.0, seconds) * per_second_);
    refilled_ = now;
  }
  bool empty() const { return tokens_ < 1; }
  double tokens() const { return tokens_; }
  // Takes one token; false if there is none.
  bool Take() {
    if (empty()) return false;
    tokens_ -= 1;
    return true;
  }
  MonoTime refilled() const { return refilled_; }

 private:
  double per_second_, burst_;
  double tokens_;
  MonoTime refilled_;
};

}  // namespace strobe::fair
