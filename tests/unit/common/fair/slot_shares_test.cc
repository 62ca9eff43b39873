#include "common/fair/slot_shares.h"

#include <gtest/gtest.h>

namespace strobe::fair {
namespace {

TEST(SlotShares, OneAskerHoldsAtMostAsManyAsAreFree) {
  SlotShares slots(6);
  int held = 0;
  while (slots.Take("busy")) ++held;
  EXPECT_EQ(held, 3);
  EXPECT_TRUE(slots.Take("second"));
  EXPECT_TRUE(slots.Take("third"));
  EXPECT_TRUE(slots.Take("fourth"));
  EXPECT_FALSE(slots.Take("fifth")) << "all are held";
  slots.GiveBack("second");
  EXPECT_FALSE(slots.Take("busy")) << "it holds more than are free";
  EXPECT_TRUE(slots.Take("fifth"));
}

}  // namespace
}  // namespace strobe::fair
