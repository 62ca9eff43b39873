// Spreads the calls of many processes that started together.
#pragma once
#include <random>

#include "common/base/clock.h"

namespace strobe {

// Shortens a wait by up to a fifth at random, because thousands of sidecars that started together
// must not call the operator at one moment.
inline Nanos Spread(Nanos wait) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  // Divides first: a wait of years, times a hundred, would overflow.
  return wait / 100 * std::uniform_int_distribution<int>(80, 100)(random);
}

}  // namespace strobe
