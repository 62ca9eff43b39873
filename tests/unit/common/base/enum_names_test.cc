#include "common/base/enum_names.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace strobe {
namespace {

enum class Metal : std::uint8_t { kIron, kTin, kZinc2 };

static_assert(IsEnumerator<Metal::kIron>() && IsEnumerator<Metal::kZinc2>());
static_assert(!IsEnumerator<static_cast<Metal>(3)>());

TEST(EnumNames, HasATextForEachValue) {
  static constexpr EnumNames<Metal, 3> kNames(
      {{Metal::kIron, "iron"}, {Metal::kTin, "tin"}, {Metal::kZinc2, "zinc"}});
  static_assert(kNames.Of(Metal::kTin) == "tin");
  EXPECT_EQ(kNames.Of(Metal::kIron), "iron");
  EXPECT_EQ(kNames.Of(Metal::kZinc2), "zinc");
  EXPECT_EQ(kNames.Of(static_cast<Metal>(3)), "");
  EXPECT_EQ(kNames.Of(static_cast<Metal>(200), "slag"), "slag");
}

}  // namespace
}  // namespace strobe
