#include "common/text/quantity.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

TEST(ParseQuantity, KnowsKubernetesUnits) {
  EXPECT_DOUBLE_EQ(*ParseQuantity("100m"), 0.1);
  EXPECT_DOUBLE_EQ(*ParseQuantity("1.5"), 1.5);
  EXPECT_DOUBLE_EQ(*ParseQuantity("512Mi"), 512 * kMebi);
  EXPECT_DOUBLE_EQ(*ParseQuantity("2Gi"), 2048 * kMebi);
  EXPECT_DOUBLE_EQ(*ParseQuantity("2G"), 2e9);
  EXPECT_DOUBLE_EQ(*ParseQuantity("0"), 0);
  EXPECT_DOUBLE_EQ(*ParseQuantity("0.0m"), 0);
  EXPECT_DOUBLE_EQ(*ParseQuantity("64k"), 64e3);
  EXPECT_DOUBLE_EQ(*ParseQuantity("1e3"), 1000);
  EXPECT_DOUBLE_EQ(*ParseQuantity("25E-1"), 2.5);
  EXPECT_DOUBLE_EQ(*ParseQuantity("2E"), 2e18);
  EXPECT_DOUBLE_EQ(*ParseQuantity("1Ei"), 1024 * 1024 * kMebi * kMebi);
  EXPECT_DOUBLE_EQ(*ParseQuantity(".5Ki"), 512);
}

TEST(ParseQuantity, NothingElse) {
  for (const char* bad : {"", "lots", "5Foo", ".", ".Gi", "1MiB", "512mi", "1K", "-1", "1e",
                          "1e3Ki", "1e999", "9999999999999999999", "1 Gi", "1.2.3"})
    EXPECT_FALSE(ParseQuantity(bad).has_value()) << bad;
}

TEST(ParseBytes, IsAPositiveWholeNumber) {
  EXPECT_EQ(ParseBytes("2Gi"), 2ull << 30);
  EXPECT_EQ(ParseBytes("1000"), 1000u);
  EXPECT_EQ(ParseBytes("1.5"), 2u);
  for (const char* bad : {"0", "0Gi", "", "2GiB", "99E"}) EXPECT_FALSE(ParseBytes(bad)) << bad;
}

TEST(FormatQuantity, IsExactAndRoundedQuantityIsNot) {
  EXPECT_EQ(FormatQuantity(2ull << 30), "2Gi");
  EXPECT_EQ(FormatQuantity(2'000'000'000), "2G");
  EXPECT_EQ(FormatQuantity(1001), "1001");
  EXPECT_EQ(FormatQuantity(0), "0");
  EXPECT_EQ(RoundedQuantity(1'288'490'188), "1229Mi");
  EXPECT_EQ(RoundedQuantity(10ull << 30), "10Gi");
  EXPECT_EQ(RoundedQuantity(176'000), "172Ki");
  EXPECT_EQ(RoundedQuantity(999), "999");
  EXPECT_EQ(RoundedQuantity(0), "0");
}

}  // namespace
}  // namespace strobe
