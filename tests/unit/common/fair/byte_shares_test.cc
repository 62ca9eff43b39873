#include "common/fair/byte_shares.h"

#include <gtest/gtest.h>

#include <limits>

namespace strobe::fair {
namespace {

TEST(ByteShares, OneAskerLeavesRoomForOthers) {
  const auto shares = std::make_shared<ByteShares>(ByteShares::Limits{.all = 100, .each = 60});
  ByteShares::Holding first = ByteShares::Begin(shares, "mallory");
  ByteShares::Holding second = ByteShares::Begin(shares, "mallory");
  EXPECT_TRUE(first.Grow(40));
  EXPECT_FALSE(second.Grow(21));
  EXPECT_TRUE(second.Grow(20));
  ByteShares::Holding other = ByteShares::Begin(shares, "bob");
  EXPECT_FALSE(other.Grow(41)) << "all together have 100";
  EXPECT_TRUE(other.Grow(40));
  EXPECT_FALSE(other.Grow(std::numeric_limits<std::uint64_t>::max())) << "without overflow";
  EXPECT_EQ(shares->LeftFor("mallory"), 0);
  first.Release();
  EXPECT_EQ(shares->LeftFor("mallory"), 40);
  EXPECT_EQ(shares->held(), 60);
}

TEST(ByteShares, WhatIsHeldIsGivenBackOnceWhereverItWasMoved) {
  auto shares = std::make_shared<ByteShares>(ByteShares::Limits{.all = 10, .each = 10});
  {
    ByteShares::Holding holding = ByteShares::Begin(shares, "bob");
    EXPECT_TRUE(holding.Grow(7));
    ByteShares::Holding moved = std::move(holding);
    EXPECT_EQ(moved.bytes(), 7);
    EXPECT_EQ(shares->held(), 7);
    ByteShares::Holding none;
    none = std::move(moved);
    EXPECT_EQ(shares->held(), 7);
  }
  EXPECT_EQ(shares->held(), 0);
}

}  // namespace
}  // namespace strobe::fair
