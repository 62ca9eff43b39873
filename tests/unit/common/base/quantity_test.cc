#include "common/base/quantity.h"

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
}

TEST(ParseQuantity, NothingElse) {
  for (const char* bad : {"", "lots", "5Foo", "1.", ".5", "1MiB", "512mi", "1K", "-1", "1e3",
                          "9999999999999", "1 Gi", "1.2.3"})
    EXPECT_FALSE(ParseQuantity(bad).has_value()) << bad;
}

}  // namespace
}  // namespace strobe
