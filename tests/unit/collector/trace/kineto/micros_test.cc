#include "collector/trace/kineto/micros.h"

#include <gmock/gmock.h>

#include <limits>

namespace strobe::kineto {
namespace {

std::optional<std::int64_t> Ps(std::string_view text, std::int64_t from_us = 0) {
  const std::optional<Micros> time = ParseMicros(text);
  return time ? time->PsSince(from_us) : std::nullopt;
}

}  // namespace

TEST(Micros, AreExactToThePicosecond) {
  EXPECT_EQ(Ps("0"), 0);
  EXPECT_EQ(Ps("12.345"), 12'345'000);
  EXPECT_EQ(Ps("12.345678"), 12'345'678);
  // A double has no such number.
  EXPECT_EQ(Ps("9000000000000.000001", 8'999'999'999'999), 1'000'001);
  EXPECT_EQ(Ps("1790857026000123.456", 1'790'857'026'000'000), 123'456'000);
}

TEST(Micros, RoundWhatIsBehindThePicoseconds) {
  EXPECT_EQ(Ps("0.0000004"), 0);
  EXPECT_EQ(Ps("0.0000005"), 1);
  EXPECT_EQ(Ps("0.9999999"), 1'000'000);
  EXPECT_EQ(Ps("123.45600000000013"), 123'456'000);
}

TEST(Micros, MayBeNegative) {
  EXPECT_EQ(Ps("-1.25"), -1'250'000);
  EXPECT_EQ(Ps("-0.000001"), -1);
  EXPECT_EQ(ParseMicros("-1.25")->us, -2) << "the picoseconds are never negative";
}

TEST(Micros, MayHavePowers) {
  EXPECT_EQ(Ps("1.5e3"), 1'500'000'000);
  EXPECT_EQ(Ps("12E+2"), 1'200'000'000);
  EXPECT_EQ(Ps("125e-2"), 1'250'000);
  EXPECT_EQ(Ps("1e-7"), 0);
  EXPECT_EQ(Ps("0e9"), 0);
  EXPECT_EQ(Ps("1e400"), std::nullopt);
}

TEST(Micros, RefuseWhatIsNoNumber) {
  for (const std::string_view text : {"", "-", ".5", "5.", "1e", "1e+", "0x10", "1 ", " 1", "1.2.3",
                                      "NaN", "true", "1e99999", "--1"})
    EXPECT_EQ(ParseMicros(text), std::nullopt) << text;
}

TEST(Micros, RefuseTimesThatDoNotFit) {
  EXPECT_EQ(ParseMicros("1234567890123456789"), std::nullopt);
  EXPECT_EQ(Ps("123456789012345678"), std::nullopt) << "as picoseconds since 0";
  EXPECT_EQ(Ps("123456789012345678.5", 123'456'789'012'345'678), 500'000);
  EXPECT_EQ(ParseMicros("1")->PsSince(std::numeric_limits<std::int64_t>::min()), std::nullopt);
}

bool operator==(const Micros& a, const Micros& b) { return a.us == b.us && a.ps == b.ps; }

}  // namespace strobe::kineto
