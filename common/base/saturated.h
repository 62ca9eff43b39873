// Arithmetic on untrusted numbers. The result saturates instead of overflowing.
#pragma once
#include <cstdint>
#include <limits>

namespace strobe {

inline std::int64_t AddSaturated(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  constexpr std::int64_t kLatest = std::numeric_limits<std::int64_t>::max();
  return b > 0 ? kLatest : -kLatest;
}

}  // namespace strobe
