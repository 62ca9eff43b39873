#include "operator/core/label_selector.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

using Op = LabelSelector::Requirement::Operator;

bool Matches(Op op, std::vector<std::string> values,
             const std::map<std::string, std::string>& labels) {
  return LabelSelector{{{"k", op, std::move(values)}}}.Matches(labels);
}

// As the API server does it.
TEST(LabelSelector, EveryOperator) {
  EXPECT_TRUE(LabelSelector{}.Matches({}));
  EXPECT_TRUE(Matches(Op::kIn, {"a", "b"}, {{"k", "b"}}));
  EXPECT_FALSE(Matches(Op::kIn, {"a"}, {{"k", "b"}}));
  EXPECT_FALSE(Matches(Op::kIn, {"a"}, {}));
  EXPECT_TRUE(Matches(Op::kNotIn, {"a"}, {{"k", "b"}}));
  EXPECT_TRUE(Matches(Op::kNotIn, {"a"}, {}));
  EXPECT_FALSE(Matches(Op::kNotIn, {"a"}, {{"k", "a"}}));
  EXPECT_TRUE(Matches(Op::kExists, {}, {{"k", ""}}));
  EXPECT_FALSE(Matches(Op::kExists, {}, {{"j", ""}}));
  EXPECT_TRUE(Matches(Op::kDoesNotExist, {}, {{"j", ""}}));
  EXPECT_FALSE(Matches(Op::kDoesNotExist, {}, {{"k", ""}}));
}

TEST(LabelSelector, AllMustHold) {
  const LabelSelector both{{{"k", Op::kExists, {}}, {"j", Op::kExists, {}}}};
  EXPECT_TRUE(both.Matches({{"k", ""}, {"j", ""}}));
  EXPECT_FALSE(both.Matches({{"k", ""}}));
}

}  // namespace
}  // namespace strobe
