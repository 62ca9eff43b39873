#include "collector/trace/analysis/skew.h"

#include <algorithm>

namespace strobe::analysis {

std::optional<Skew> ComputeSkew(std::span<const CorrectedStart> starts) {
  if (starts.empty()) return std::nullopt;
  WallTime first = WallTime::max(), last = WallTime::min();
  // The error of a difference is the sum of both errors. The sum of the two largest errors bounds
  // it for every pair of workers.
  Nanos largest{0}, second{0};
  bool measured = true;
  for (const CorrectedStart& start : starts) {
    const WallTime corrected = start.started - start.offset;
    first = std::min(first, corrected);
    last = std::max(last, corrected);
    if (!start.error) {
      measured = false;
      continue;
    }
    second = std::max(second, std::min(largest, *start.error));
    largest = std::max(largest, *start.error);
  }
  Skew skew{.achieved = last - first};
  if (starts.size() == 1)
    skew.error = Nanos{0};
  else if (measured)
    skew.error = largest + second;
  return skew;
}

}  // namespace strobe::analysis
