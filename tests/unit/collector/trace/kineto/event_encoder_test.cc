#include "collector/trace/kineto/event_encoder.h"

#include <gtest/gtest.h>

namespace strobe::kineto {
namespace {

std::optional<std::uint64_t> Of(std::string_view name, std::string_view dims,
                                std::string_view values = "") {
  TraceEvent event;
  event.name = name;
  event.args.push_back({"Input Dims", {JsonValue::Kind::kNested, dims}});
  if (!values.empty())
    event.args.push_back({"Concrete Inputs", {JsonValue::Kind::kNested, values}});
  return FlopsOf(event);
}

constexpr std::string_view kConcrete = R"(["", "", "", "[2, 1]", "[1, 0]", "[1, 2]", "1"])";

TEST(FlopsOf, CountsProductsOfMatrices) {
  EXPECT_EQ(Of("aten::mm", "[[2, 3], [3, 5]]"), 60u);
  EXPECT_EQ(Of("aten::addmm", "[[5], [2, 3], [3, 5], [], []]"), 60u);
  EXPECT_EQ(Of("aten::bmm", "[[7, 2, 3], [7, 3, 5]]"), 420u);
  EXPECT_EQ(Of("aten::baddbmm", "[[7, 2, 5], [7, 2, 3], [7, 3, 5], [], []]"), 420u);
}

TEST(FlopsOf, CountsEachElementOnce) {
  EXPECT_EQ(Of("aten::mul", "[[4, 8], []]"), 32u);
  EXPECT_EQ(Of("aten::add", "[[4, 8], [8], []]"), 32u);
}

TEST(FlopsOf, CountsConvolutions) {
  // Heights: (8 + 2 * 1 - 3) / 2 + 1 = 4; widths: (8 - (2 * 2 + 1)) / 1 + 1 = 4.
  EXPECT_EQ(Of("aten::conv2d", "[[2, 6, 8, 8], [4, 3, 3, 3], [4], [], [], [], []]", kConcrete),
            2u * 2 * 4 * 3 * 3 * 3 * 4 * 4);
  EXPECT_EQ(Of("aten::conv2d", "[[2, 6, 8, 8], [4, 3, 3, 3], [4], [], [], [], []]"), std::nullopt)
      << "the stride is not known";
  EXPECT_EQ(Of("aten::conv2d", "[[2, 6, 8, 8], [4, 3, 3, 3]]",
               R"(["", "", "", "[0, 1]", "[1, 0]", "[1, 2]", "1"])"),
            std::nullopt);
}

TEST(FlopsOf, OddShapesCountNothing) {
  EXPECT_EQ(Of("aten::relu", "[[2, 3]]"), std::nullopt);
  EXPECT_EQ(Of("mm", "[[2, 3], [3, 5]]"), std::nullopt);
  EXPECT_EQ(FlopsOf({}), std::nullopt);
  for (const char* dims :
       {"", "[]", "[[2, 3]]", "[[2], [2]]", "[[2, 3], [3, -5]]", "[[2, 3], [[3, 5]]]", "[[2, 3",
        "[[2, 3], [3, 1e3]]", "[[2, 3], [3, 99999999999999999999]]",
        "[[4294967296, 4294967296], [4294967296, 4294967296]]"})
    EXPECT_EQ(Of("aten::mm", dims), std::nullopt) << dims;
}

}  // namespace
}  // namespace strobe::kineto
