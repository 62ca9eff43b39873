// Statistics that a few wild values do not spoil, and the probability of a deviation by chance.
#pragma once
#include <cstddef>
#include <vector>

namespace strobe::report {

// 0 without values.
double Mean(const std::vector<double>& values);
// Reorders the values. The mean of the middle two of an even number; 0 without values.
double Median(std::vector<double>& values);
// The standard deviation of a normal distribution with the same median distance from `center`:
// 1.4826 times that distance. 0 without values.
double RobustDeviation(const std::vector<double>& values, double center);

struct TrimmedMean {
  double mean = 0;
  // Standard error of the mean, from the winsorized deviations (Yuen 1974); 0 with fewer than two
  // values, which tell nothing about it.
  double error = 0;
  std::size_t kept = 0;  // Values that were not cut off; kept - 1 are the degrees of freedom.
};
// Cuts off the smallest and the largest fifth of the values.
TrimmedMean TrimmedMeanOf(std::vector<double> values);

struct Spread {
  double mean = 0;
  double half_width = 0;  // Half of the 95 % interval of the mean; 0 with fewer than two values.
};
// The spread of the plain mean of all values.
Spread SpreadOf(const std::vector<double>& values);
// The spread of the trimmed mean.
Spread SpreadOf(const TrimmedMean& mean);

// The probability that Student's t with these degrees of freedom (at least 1) exceeds t.
double StudentTail(double t, double degrees);
// The t that is exceeded with this probability.
double StudentQuantile(double probability, double degrees);
// The probability of at least `hits` in `trials` that each hit with probability p.
double BinomialTail(std::size_t hits, std::size_t trials, double p);

}  // namespace strobe::report
