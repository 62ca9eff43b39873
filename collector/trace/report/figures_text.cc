#include "collector/trace/report/figures_text.h"

#include <cmath>

#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::report {

std::string TimeText(double ns) {
  // Conversion to an integer is defined for what fits only.
  constexpr double kFar = 9e18;
  return FormatDuration(Nanos{std::llround(std::fmin(std::fmax(ns, -kFar), kFar))});
}

std::string PercentText(double share) {
  const double percent = std::fabs(share) * 100;
  return percent < 9.95 ? StrCat(std::round(percent * 10) / 10, "%")
                        : StrCat(std::llround(std::fmin(percent, 1e9)), "%");
}

}  // namespace strobe::report
