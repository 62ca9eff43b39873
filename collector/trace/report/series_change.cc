#include "collector/trace/report/series_change.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "collector/trace/report/robust.h"
#include "common/base/enum_names.h"

namespace strobe::report {
namespace {

// Beyond this, the few steps of a capture do not tell how much neighbours resemble each other.
constexpr double kMaxResemblance = 0.8;
constexpr std::size_t kMinBlocks = 5;

// The correlation of each value with the next one, corrected for the bias that it has in short
// series (Marriott and Pope 1954). Values that alternate count as independent.
double Resemblance(std::span<const double> values, double mean) {
  double squares = 0, products = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    squares += (values[i] - mean) * (values[i] - mean);
    if (i > 0) products += (values[i] - mean) * (values[i - 1] - mean);
  }
  if (squares <= 0) return 0;
  const double found = products / squares;
  return std::clamp(found + (1 + 3 * found) / static_cast<double>(values.size()), 0.0,
                    kMaxResemblance);
}

// The standard error of the mean of all values, from the means of `length` neighbours each.
double ErrorOfBlocks(std::span<const double> values, double mean, std::size_t length) {
  const std::size_t blocks = values.size() / length, skipped = values.size() % length;
  double squares = 0;
  for (std::size_t block = 0; block < blocks; ++block) {
    double sum = 0;
    for (std::size_t i = 0; i < length; ++i) sum += values[skipped + block * length + i];
    const double distance = sum / static_cast<double>(length) - mean;
    squares += distance * distance;
  }
  const auto n = static_cast<double>(blocks);
  return std::sqrt(squares / (n - 1) / n);
}

// Returns the degrees of freedom by Welch and Satterthwaite.
double DegreesOf(const Typical& before, const Typical& after) {
  const double a = before.error * before.error, b = after.error * after.error;
  const double below = a * a / std::max(before.degrees, 1.0) + b * b / std::max(after.degrees, 1.0);
  return below > 0 ? std::max((a + b) * (a + b) / below, 1.0) : 1;
}

}  // namespace

Typical TypicalOf(std::span<const double> values) {
  std::vector<double> series(values.begin(), values.end());
  const TrimmedMean trimmed = TrimmedMeanOf(series);
  Typical typical{.mean = trimmed.mean, .n = series.size()};
  if (trimmed.kept < 2) return typical;
  std::vector<double> sorted = series;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t cut = (series.size() - trimmed.kept) / 2;
  const double low = sorted[cut], high = sorted[series.size() - 1 - cut];
  for (double& value : series) value = std::clamp(value, low, high);
  const double mean = Mean(series), alike = Resemblance(series, mean);
  typical.degrees = static_cast<double>(trimmed.kept - 1);
  double error = ErrorOfBlocks(series, mean, 1) * std::sqrt((1 + alike) / (1 - alike));
  for (std::size_t length = 2; series.size() / length >= kMinBlocks; length *= 2) {
    const double of_blocks = ErrorOfBlocks(series, mean, length);
    if (of_blocks <= error) continue;
    const std::size_t blocks = series.size() / length;
    error = of_blocks;
    typical.degrees = static_cast<double>(blocks - 1);
  }
  typical.error = error * static_cast<double>(series.size()) / static_cast<double>(trimmed.kept);
  return typical;
}

std::string_view VerdictName(ChangeVerdict verdict) {
  static constexpr EnumNames<ChangeVerdict, 4> kNames(
      {{ChangeVerdict::kLonger, "longer"},
       {ChangeVerdict::kShorter, "shorter"},
       {ChangeVerdict::kNoChange, "no change"},
       {ChangeVerdict::kNotDecidable, "not decidable"}});
  return kNames.Of(verdict);
}

Change CompareTypical(const Typical& before, const Typical& after, double bias,
                      const ChangeTest& test) {
  Change change{
      .before = before.mean, .after = after.mean, .before_n = before.n, .after_n = after.n};
  const double error = std::hypot(before.error, after.error);
  if (!std::isfinite(error)) return change;  // No error is known, so that nothing can be told.
  // Two-sided: chance can make a run look longer as well as shorter.
  change.error =
      bias +
      (error > 0 ? error * StudentQuantile(test.false_alarm / 2, DegreesOf(before, after)) : 0);
  change.smallest = test.margin + change.error;
  if (!std::isfinite(change.smallest) || !std::isfinite(change.difference())) return change;
  if (std::fabs(change.difference()) > change.smallest)
    change.verdict = change.difference() > 0 ? ChangeVerdict::kLonger : ChangeVerdict::kShorter;
  else if (change.smallest <=
           std::max(test.decisive, test.too_wide * std::max(change.before, change.after)))
    change.verdict = ChangeVerdict::kNoChange;
  return change;
}

Change CompareSeries(std::span<const double> before, std::span<const double> after,
                     const ChangeTest& test) {
  const Typical a = TypicalOf(before), b = TypicalOf(after);
  if (std::min(a.n, b.n) >= kMinComparedSteps) return CompareTypical(a, b, 0, test);
  return {.before = a.mean, .after = b.mean, .before_n = a.n, .after_n = b.n};
}

}  // namespace strobe::report
