#include "operator/admission/resource_range.h"

#include <gmock/gmock.h>

namespace strobe {
namespace {

using Json = nlohmann::json;

constexpr double kGiB = 1024.0 * 1024 * 1024;

Json PodOf(const char* limit, const char* request) {
  return {
      {"containers",
       {{{"name", "train"},
         {"resources", {{"limits", {{"memory", limit}}}, {"requests", {{"memory", request}}}}}}}}};
}

ResourceRange MemoryOf(const Json& spec, const NamespaceLimits& limits) {
  return RangesOf(spec, limits)("memory");
}

TEST(ResourceRange, WithoutRulesEverythingFits) {
  const ResourceRange range = MemoryOf(PodOf("8Gi", "4Gi"), {});
  EXPECT_FALSE(range.demanded);
  const auto chosen = ChooseAmounts(range, 1, std::nullopt, false);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->request, 1);
  EXPECT_FALSE(chosen->limit);
}

TEST(ResourceRange, SumsOfAPodAreWhatTheOthersLeave) {
  const NamespaceLimits limits{.rules = {{.whole_pod = true, .max = {{"memory", 10 * kGiB}}}}};
  const ResourceRange range = MemoryOf(PodOf("8Gi", "4Gi"), limits);
  EXPECT_EQ(range.max_limit, 2 * kGiB);
  EXPECT_EQ(range.max_request, 6 * kGiB);
  // The pod is refused in any case, so that it is not our business.
  EXPECT_EQ(MemoryOf(PodOf("12Gi", "4Gi"), limits).max_limit,
            std::numeric_limits<double>::infinity());
}

TEST(ResourceRange, InitContainersCountAsTheApiServerCountsThem) {
  const NamespaceLimits limits{.rules = {{.whole_pod = true, .max = {{"memory", 10 * kGiB}}}}};
  Json spec = PodOf("4Gi", "4Gi");
  const Json two = {{"limits", {{"memory", "2Gi"}}}};
  spec["initContainers"] = {
      {{"name", "proxy"}, {"restartPolicy", "Always"}, {"resources", two}},
      {{"name", "fetch"}, {"resources", {{"limits", {{"memory", "5Gi"}}}}}},
      {{"name", "strobe-sidecar"}, {"restartPolicy", "Always"}, {"resources", two}}};
  EXPECT_EQ(MemoryOf(spec, limits).max_limit, 3 * kGiB) << "proxy and fetch run at the same time";
}

TEST(ResourceRange, QuotasCountOnlyPodsOfTheirScope) {
  const Quota terminating{.name = "q",
                          .hard = {{"limits.memory", 10 * kGiB}},
                          .used = {{"limits.memory", 1 * kGiB}},
                          .terminating = true};
  Json spec = PodOf("8Gi", "4Gi");
  EXPECT_FALSE(MemoryOf(spec, {.quotas = {terminating}}).demanded);
  spec["activeDeadlineSeconds"] = 60;
  const ResourceRange range = MemoryOf(spec, {.quotas = {terminating}});
  EXPECT_TRUE(range.demanded);
  EXPECT_EQ(range.max_limit, 1 * kGiB);
  Quota some = terminating;
  some.by_other_traits = true;
  EXPECT_TRUE(MemoryOf(spec, {.quotas = {some}}).demanded);
  EXPECT_EQ(MemoryOf(spec, {.quotas = {some}}).max_limit, std::numeric_limits<double>::infinity());
  Quota best_effort = terminating;
  best_effort.best_effort_only = true;
  EXPECT_FALSE(MemoryOf(spec, {.quotas = {best_effort}}).demanded);
}

TEST(ChooseAmounts, StaysWithinTheRange) {
  ResourceRange range{.min = 2, .max_request = 8, .max_limit = 10, .max_ratio = 2};
  auto chosen = ChooseAmounts(range, 1, 100, false);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->limit, 10);
  EXPECT_EQ(chosen->request, 5) << "raised for the ratio";
  range.max_request = 3;
  chosen = ChooseAmounts(range, 1, 100, false);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->limit, 6) << "lowered for the ratio";
  EXPECT_EQ(chosen->request, 3);
  chosen = ChooseAmounts(range, 1, 100, true);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->limit, 3);
  EXPECT_EQ(chosen->request, 3);
  range.max_limit = 1;
  EXPECT_FALSE(ChooseAmounts(range, 1, 100, false)) << "below the minimum";
  EXPECT_EQ(ChooseAmounts({.max_request = 3}, 5, std::nullopt, false)->request, 3);
  EXPECT_FALSE(ChooseAmounts({.min = 4, .max_request = 3}, 5, std::nullopt, false));
}

}  // namespace
}  // namespace strobe
