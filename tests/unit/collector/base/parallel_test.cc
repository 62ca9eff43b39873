#include "collector/base/parallel.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

TEST(ParallelFor, DoesEachPieceOnce) {
  for (const std::size_t count : {0, 1, 7, 100}) {
    std::vector<std::atomic<int>> done(count);
    ParallelFor(count, 4, [&](std::size_t i) { ++done[i]; });
    for (const auto& times : done) EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace strobe
