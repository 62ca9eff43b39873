// Is the typical value of one series of steps different from that of another one? Made for steps:
// they are few, some are much longer than the others, and each resembles the one before.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace strobe::report {

// What is typical of a series, and how well that is known.
struct Typical {
  double mean = 0;   // The trimmed mean.
  double error = 0;  // Its standard error, which counts how much neighbours resemble each other.
  double degrees = 0;
  std::size_t n = 0;
};
// `values` are in the order of time.
Typical TypicalOf(std::span<const double> values);

enum class ChangeVerdict : std::uint8_t { kLonger, kShorter, kNoChange, kNotDecidable };
// "longer", "shorter", "no change" or "not decidable".
std::string_view VerdictName(ChangeVerdict verdict);

struct Change {
  double before = 0, after = 0;
  double error = 0;     // Half-width of the interval of after - before that the verdict uses.
  double smallest = 0;  // The smallest difference that would have been told; 0 where none could be.
  std::size_t before_n = 0, after_n = 0;
  ChangeVerdict verdict = ChangeVerdict::kNotDecidable;

  double difference() const { return after - before; }
};

struct ChangeTest {
  double margin = 0;  // A smaller difference is not reported, even if it is certain.
  // "No change" is decided only if the smallest difference that would have been noticed is at most
  // this share of the larger value, or at most `decisive`.
  double too_wide = 0, decisive = 0;
  double false_alarm = 0;  // The probability that a difference of at most the margin is told.
};

// With fewer steps in one of the runs, a change cannot be told from chance.
inline constexpr std::size_t kMinComparedSteps = 6;

// A change is reported only if the whole interval of the difference lies beyond the margin.
Change CompareSeries(std::span<const double> before, std::span<const double> after,
                     const ChangeTest& test);
// Like CompareSeries, for two values that are known with these errors. `bias`: by how much the
// difference can be wrong in addition.
Change CompareTypical(const Typical& before, const Typical& after, double bias,
                      const ChangeTest& test);

}  // namespace strobe::report
