#include "operator/base/label_selector.h"

#include <gtest/gtest.h>

namespace strobe::kube {
namespace {

using Op = LabelSelector::Requirement::Operator;

bool Matches(Op op, std::vector<std::string> values,
             const std::map<std::string, std::string>& labels) {
  return LabelSelector{{{"k", op, std::move(values)}}}.Matches(labels);
}

// The operators must match as they do in the API server.
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

// The cases are those of kube-apiserver's own tests.
TEST(CheckLabelKey, AsKubernetesDoes) {
  for (const char* good : {"app", "a.b_c-d", "example.com/App", "1", "a.b.c/x", "kubernetes.io/os"})
    EXPECT_TRUE(CheckLabelKey(good).ok()) << good;
  for (const std::string& bad :
       {std::string(), std::string("my app"), std::string("-a"), std::string("a-"),
        std::string("/a"), std::string("a/"), std::string("a/b/c"), std::string("A.com/x"),
        std::string("a..b/x"), std::string("a,b"), std::string("a=b"), std::string(64, 'a'),
        std::string(254, 'a') + "/x", std::string("a\xff"), std::string("a\nb")})
    EXPECT_FALSE(CheckLabelKey(bad).ok()) << bad;
}

TEST(CheckLabelValue, AsKubernetesDoes) {
  for (const std::string& good :
       {std::string(), std::string("a"), std::string("A_b.c-1"), std::string(63, 'a')})
    EXPECT_TRUE(CheckLabelValue(good).ok()) << good;
  for (const std::string& bad :
       {std::string("my app"), std::string("-a"), std::string("a."), std::string("a/b"),
        std::string("a,b"), std::string("a)"), std::string(64, 'a'), std::string("\xc3\xa4")})
    EXPECT_FALSE(CheckLabelValue(bad).ok()) << bad;
}

TEST(LabelSelector, SaysItselfAsTheApiServerTakesIt) {
  using Operator = LabelSelector::Requirement::Operator;
  const LabelSelector selector{{{"a", Operator::kIn, {"b"}},
                                {"c", Operator::kIn, {"x", "y"}},
                                {"d", Operator::kNotIn, {"z"}},
                                {"e", Operator::kExists, {}},
                                {"f", Operator::kDoesNotExist, {}},
                                {"g", Operator::kIn, {""}}}};
  EXPECT_EQ(selector.ToText(), "a=b,c in (x,y),d notin (z),e,!f,g=");
}

}  // namespace
}  // namespace strobe::kube
