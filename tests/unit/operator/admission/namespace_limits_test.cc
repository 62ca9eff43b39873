#include "operator/admission/namespace_limits.h"

#include <gmock/gmock.h>

namespace strobe::admission {
namespace {

using Json = nlohmann::json;

TEST(AmountOf, ReadsWhatTheApiServerStores) {
  EXPECT_DOUBLE_EQ(*AmountOf("1500m"), 1.5);
  EXPECT_DOUBLE_EQ(*AmountOf("2e3"), 2000);
  EXPECT_DOUBLE_EQ(*AmountOf("2147483648000m"), 2147483648.0);
  EXPECT_DOUBLE_EQ(*AmountOf("1Pi"), 1125899906842624.0);
  EXPECT_DOUBLE_EQ(*AmountOf("1E"), 1e18);
  EXPECT_DOUBLE_EQ(*AmountOf("5u"), 5e-6);
  EXPECT_DOUBLE_EQ(*AmountOf(Json(3)), 3);
  for (const Json& bad :
       {Json("lots"), Json("1Foo"), Json(""), Json(), Json::array({1}), Json("1x")})
    EXPECT_FALSE(AmountOf(bad)) << bad;
}

TEST(ParseLimitRange, TakesContainersAndPods) {
  const auto rules = ParseLimitRange(Json::parse(R"({"spec": {"limits": [
    {"type": "Container", "max": {"cpu": "8"}, "min": {"cpu": "10m"}, "default": {"cpu": "1"}},
    {"type": "Pod", "maxLimitRequestRatio": {"memory": "2"}},
    {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}})"));
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0].max.at("cpu"), 8);
  EXPECT_EQ(rules[0].defaults.at("cpu"), 1);
  EXPECT_TRUE(rules[1].whole_pod);
  EXPECT_EQ(rules[1].max_ratio.at("memory"), 2);
}

TEST(ParseQuota, TakesTheStatus) {
  const Quota quota = ParseQuota(Json::parse(R"({"metadata": {"name": "q"},
    "spec": {"hard": {"limits.cpu": "100"}, "scopes": ["NotTerminating"]},
    "status": {"hard": {"limits.cpu": "10"}, "used": {"limits.cpu": "2500m"}}})"));
  EXPECT_EQ(quota.hard.at("limits.cpu"), 10) << "by which the API server judges";
  EXPECT_EQ(quota.used.at("limits.cpu"), 2.5);
  ASSERT_EQ(quota.scopes.size(), 1u);
  EXPECT_EQ(quota.scopes[0].name, "NotTerminating");
  EXPECT_EQ(quota.scopes[0].op, "Exists");
}

TEST(ParseQuota, TakesScopesAndTheSelectorTogether) {
  const Quota quota = ParseQuota(Json::parse(R"({"spec": {"scopes": ["NotBestEffort"],
    "scopeSelector": {"matchExpressions": [
      {"scopeName": "PriorityClass", "operator": "In", "values": ["high", "low"]},
      {"scopeName": "Terminating", "operator": "Exists"}, 1]}}})"));
  ASSERT_EQ(quota.scopes.size(), 4u);
  EXPECT_EQ(quota.scopes[0].name, "NotBestEffort");
  EXPECT_EQ(quota.scopes[1].name, "PriorityClass");
  EXPECT_EQ(quota.scopes[1].op, "In");
  EXPECT_THAT(quota.scopes[1].values, testing::ElementsAre("high", "low"));
  EXPECT_EQ(quota.scopes[2].op, "Exists");
  EXPECT_EQ(quota.scopes[3].name, "") << "which is no scope, so that the quota counts no pod";
}

TEST(Limits, NonsenseLimitsNothing) {
  for (const char* text : {"{}", "[]", "1", R"({"spec": 1})", R"({"spec": {"limits": {}}})",
                           R"({"spec": {"limits": [1, {"type": "Pod", "max": []}]}})",
                           R"({"status": {"hard": [], "used": "x"}})"}) {
    for (const LimitRule& rule : ParseLimitRange(Json::parse(text))) EXPECT_TRUE(rule.max.empty());
    EXPECT_TRUE(ParseQuota(Json::parse(text)).hard.empty());
  }
}

}  // namespace
}  // namespace strobe::admission
