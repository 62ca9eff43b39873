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

// As after a quota was lowered. The API server refuses only pods that would use more of it.
TEST(ResourceRange, AnOverusedQuotaHasNothingLeftForAPodThatAddsNothingToIt) {
  const NamespaceLimits limits{.quotas = {{.name = "q",
                                           .hard = {{"limits.memory", 1 * kGiB}},
                                           .used = {{"limits.memory", 2 * kGiB}}}}};
  EXPECT_EQ(MemoryOf(PodOf("0", "0"), limits).max_limit, 0);
  EXPECT_EQ(MemoryOf(PodOf("8Gi", "4Gi"), limits).max_limit,
            std::numeric_limits<double>::infinity())
      << "it is refused without us too";
}

TEST(ResourceRange, QuotasCountOnlyPodsOfTheirScope) {
  const Quota terminating{.name = "q",
                          .hard = {{"limits.memory", 10 * kGiB}},
                          .used = {{"limits.memory", 1 * kGiB}},
                          .scopes = {{"Terminating", "Exists"}}};
  Json spec = PodOf("8Gi", "4Gi");
  EXPECT_FALSE(MemoryOf(spec, {.quotas = {terminating}}).demanded);
  spec["activeDeadlineSeconds"] = 60;
  const ResourceRange range = MemoryOf(spec, {.quotas = {terminating}});
  EXPECT_TRUE(range.demanded);
  EXPECT_EQ(range.max_limit, 1 * kGiB);
  Quota some = terminating;
  some.scopes.push_back({"PriorityClass", "In", {"high"}});
  EXPECT_FALSE(MemoryOf(spec, {.quotas = {some}}).demanded);
  spec["priorityClassName"] = "high";
  EXPECT_TRUE(MemoryOf(spec, {.quotas = {some}}).demanded);
  EXPECT_EQ(MemoryOf(spec, {.quotas = {some}}).max_limit, 1 * kGiB);
  Quota best_effort = terminating;
  best_effort.scopes = {{"BestEffort", "Exists"}};
  EXPECT_FALSE(MemoryOf(spec, {.quotas = {best_effort}}).demanded);
}

// The sidecar's memory limit makes such a pod Burstable.
TEST(ResourceRange, ABestEffortPodIsNotGivenToAQuotaThatRefusesIt) {
  const Json gpus = {{"limits", {{"nvidia.com/gpu", "8"}}}};
  const Json spec = {{"containers", {{{"name", "train"}, {"resources", gpus}}}}};
  const auto why = [&spec](const Amounts& hard, const Amounts& used, const char* scope) {
    const NamespaceLimits limits{
        .quotas = {{.name = "q", .hard = hard, .used = used, .scopes = {{scope, "Exists"}}}}};
    return RangesOf(spec, limits).WhyRefused();
  };
  constexpr char kNotBestEffort[] = "NotBestEffort";
  EXPECT_THAT(why({{"limits.cpu", 96}}, {}, kNotBestEffort),
              testing::HasSubstr("ResourceQuota q demands limits.cpu of every container"));
  EXPECT_THAT(why({{"memory", 96}}, {}, kNotBestEffort), testing::HasSubstr("demands memory"));
  EXPECT_THAT(why({{"pods", 3}}, {{"pods", 3}}, kNotBestEffort),
              testing::HasSubstr("has no room for pods"));
  EXPECT_EQ(why({{"pods", 3}}, {{"pods", 2}}, kNotBestEffort), "");
  EXPECT_THAT(
      why({{"requests.nvidia.com/gpu", 8}}, {{"requests.nvidia.com/gpu", 4}}, kNotBestEffort),
      testing::HasSubstr("has no room for requests.nvidia.com/gpu"));
  EXPECT_EQ(
      why({{"requests.ephemeral-storage", 1}}, {{"requests.ephemeral-storage", 2}}, kNotBestEffort),
      "")
      << "it has been used up already, but the pod adds nothing";
  EXPECT_EQ(why({{"limits.cpu", 96}}, {}, "NotTerminating"), "") << "it is refused without us too";
  const NamespaceLimits demands{
      .quotas = {
          {.name = "q", .hard = {{"limits.cpu", 96}}, .scopes = {{kNotBestEffort, "Exists"}}}}};
  EXPECT_EQ(RangesOf(PodOf("8Gi", "4Gi"), demands).WhyRefused(), "") << "it is Burstable already";
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
