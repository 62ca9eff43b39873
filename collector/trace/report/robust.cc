#include "collector/trace/report/robust.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace strobe::report {
namespace {

// The continued fraction of the incomplete beta function (modified Lentz's method).
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kEnough = 1e-12;
  constexpr int kMaxTerms = 1000;
  // The method divides by its terms, and a tiny one serves as well as zero.
  const auto nonzero = [](double value) { return std::fabs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / nonzero(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m < kMaxTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / nonzero(1 + even * d);
    c = nonzero(1 + even / c);
    fraction *= c * d;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / nonzero(1 + odd * d);
    c = nonzero(1 + odd / c);
    fraction *= c * d;
    if (std::fabs(c * d - 1) < kEnough) break;
  }
  return fraction;
}

// The regularized incomplete beta function I_x(a, b), for a, b > 0.
double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  // The fraction converges fast below this bound only. Above it, I_x(a, b) = 1 - I_{1-x}(b, a).
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

}  // namespace

double Mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double RobustDeviation(const std::vector<double>& values, double center) {
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::fabs(value - center));
  // In a normal distribution the deviation is so many times the median distance.
  constexpr double kPerMedianDistance = 1.4826;
  return kPerMedianDistance * Median(distances);
}

TrimmedMean TrimmedMeanOf(std::vector<double> values) {
  const std::size_t n = values.size(), cut = n / 5;
  if (n == 0) return {};
  std::sort(values.begin(), values.end());
  TrimmedMean result{.kept = n - 2 * cut};
  for (std::size_t i = cut; i < n - cut; ++i) result.mean += values[i];
  result.mean /= static_cast<double>(result.kept);
  if (result.kept < 2) return result;
  // For the error, values that were cut count as the nearest one that was kept (a winsorized
  // deviation): without them, the rest would seem to vary less than it does.
  for (std::size_t i = 0; i < cut; ++i) {
    values[i] = values[cut];
    values[n - 1 - i] = values[n - 1 - cut];
  }
  const double center = Mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  const auto kept = static_cast<double>(result.kept);
  result.error = std::sqrt(squares / (kept * (kept - 1)));
  return result;
}

Spread SpreadOf(const std::vector<double>& values) {
  TrimmedMean plain{.mean = Mean(values), .kept = values.size()};
  const auto n = static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - plain.mean) * (value - plain.mean);
  if (n > 1) plain.error = std::sqrt(squares / n / (n - 1));
  return SpreadOf(plain);
}

Spread SpreadOf(const TrimmedMean& mean) {
  constexpr double kTwoSided95 = 0.025;
  Spread spread{.mean = mean.mean};
  if (mean.kept > 1)
    spread.half_width =
        mean.error * StudentQuantile(kTwoSided95, static_cast<double>(mean.kept - 1));
  return spread;
}

double StudentTail(double t, double degrees) {
  if (t <= 0) return 1 - (t == 0 ? 0.5 : StudentTail(-t, degrees));
  return IncompleteBeta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2;
}

double StudentQuantile(double probability, double degrees) {
  double low = 0, high = 1e6;
  for (int i = 0; i < 100; ++i) {  // Halves it to less than a double can tell.
    const double middle = (low + high) / 2;
    (StudentTail(middle, degrees) > probability ? low : high) = middle;
  }
  return high;
}

double BinomialTail(std::size_t hits, std::size_t trials, double p) {
  if (hits == 0 || p >= 1) return 1;
  if (hits > trials || p <= 0) return 0;
  return IncompleteBeta(static_cast<double>(hits), static_cast<double>(trials - hits + 1), p);
}

}  // namespace strobe::report
