#include "common/base/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace strobe {
namespace {

TEST(ParallelFor, DoesEachPieceOnce) {
  for (const std::size_t count : {0, 1, 7, 100}) {
    std::vector<std::atomic<int>> done(count);
    ParallelFor(count, 4, [&](std::size_t i) { ++done[i]; });
    for (const auto& times : done) EXPECT_EQ(times, 1);
  }
}

TEST(ParallelFor, ThrowsWhatOneOfThemThrewOnceAllAreDone) {
  std::atomic<int> running{0};
  const auto work = [&](std::size_t i) {
    ++running;
    if (i == 3) {
      --running;
      throw std::runtime_error("three");
    }
    std::this_thread::yield();
    --running;
  };
  for (int round = 0; round < 50; ++round)
    EXPECT_THROW(ParallelFor(20, 4, work), std::runtime_error);
  EXPECT_EQ(running, 0);
}

}  // namespace
}  // namespace strobe
