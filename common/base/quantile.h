// Quantiles of a few values.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace strobe {

// The value that `share` of the values do not exceed: one of them, without interpolation. Reorders
// them. There must be at least one; `share` is from 0 to 1.
template <typename Value>
Value QuantileOf(std::vector<Value>& values, double share) {
  const auto place =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace strobe
