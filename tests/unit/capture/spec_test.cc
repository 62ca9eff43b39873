#include "capture/spec.h"

#include <gtest/gtest.h>

namespace strobe::capture {
namespace {

TEST(ResolveMinWorkers, TakesNumbersAndPercentagesRoundedUp) {
  EXPECT_EQ(*ResolveMinWorkers("3", 8), 3u);
  EXPECT_EQ(*ResolveMinWorkers("100%", 8), 8u);
  EXPECT_EQ(*ResolveMinWorkers("50%", 7), 4u);
  EXPECT_EQ(*ResolveMinWorkers("1%", 3), 1u);
}

TEST(ResolveMinWorkers, KeepsANumberThatCannotBeMet) { EXPECT_EQ(*ResolveMinWorkers("9", 8), 9u); }

TEST(ResolveMinWorkers, RefusesEverythingElse) {
  for (const char* text : {"", "0", "0%", "101%", "-1", "x", "5 %", "1.5"})
    EXPECT_FALSE(ResolveMinWorkers(text, 8).ok()) << text;
}

}  // namespace
}  // namespace strobe::capture
