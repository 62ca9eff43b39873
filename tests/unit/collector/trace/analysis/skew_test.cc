#include "collector/trace/analysis/skew.h"

#include <gtest/gtest.h>

#include <vector>

namespace strobe::analysis {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kStart{100s};

TEST(ComputeSkew, CorrectsEachClock) {
  const std::vector<CorrectedStart> starts = {
      {kStart, 0ms, 1us}, {kStart + 11560ms + 3us, 11560ms, 2us}, {kStart - 1us, 0ms, 5us}};
  const auto skew = ComputeSkew(starts);
  EXPECT_EQ(skew->achieved, 4us);
  EXPECT_EQ(skew->error, 7us) << "the two largest errors bound every pair";
}

TEST(ComputeSkew, OneWorkerHasNone) {
  const std::vector<CorrectedStart> one = {{kStart, 0ms, std::nullopt}};
  EXPECT_EQ(ComputeSkew(one)->achieved, 0us);
  EXPECT_EQ(ComputeSkew(one)->error, 0us);
}

TEST(ComputeSkew, SaysWhenAClockWasNeverMeasured) {
  const std::vector<CorrectedStart> two = {{kStart, 0ms, 1us}, {kStart, 0ms, std::nullopt}};
  EXPECT_EQ(ComputeSkew(two)->error, std::nullopt);
}

TEST(ComputeSkew, NothingForNobody) { EXPECT_FALSE(ComputeSkew({}).has_value()); }

}  // namespace
}  // namespace strobe::analysis
