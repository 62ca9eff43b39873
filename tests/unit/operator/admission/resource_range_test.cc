#include "operator/admission/resource_range.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

namespace strobe::admission {
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

bool CountsPod(std::vector<QuotaScope> scopes, const Json& spec, bool best_effort = false) {
  return QuotaCounts({.scopes = std::move(scopes)}, spec, best_effort);
}

const Json kClassless = Json::object();
const Json kHigh = {{"priorityClassName", "high"}};
const Json kLow = {{"priorityClassName", "low"}};

TEST(QuotaScopes, PriorityClassesAreMatchedLikeLabels) {
  const QuotaScope in{"PriorityClass", "In", {"high", "urgent"}};
  EXPECT_TRUE(CountsPod({in}, kHigh));
  EXPECT_FALSE(CountsPod({in}, kLow));
  EXPECT_FALSE(CountsPod({in}, kClassless));
  const QuotaScope not_in{"PriorityClass", "NotIn", {"high", "urgent"}};
  EXPECT_FALSE(CountsPod({not_in}, kHigh));
  EXPECT_TRUE(CountsPod({not_in}, kLow));
  EXPECT_TRUE(CountsPod({not_in}, kClassless)) << "what is not there is not in the list";
  const QuotaScope exists{"PriorityClass", "Exists"}, absent{"PriorityClass", "DoesNotExist"};
  EXPECT_TRUE(CountsPod({exists}, kLow));
  EXPECT_FALSE(CountsPod({exists}, kClassless));
  EXPECT_FALSE(CountsPod({absent}, kLow));
  EXPECT_TRUE(CountsPod({absent}, kClassless));
  EXPECT_FALSE(CountsPod({{"PriorityClass", "Near", {"low"}}}, kLow));
}

TEST(QuotaScopes, TheClassOfServiceAndTheDeadlineCount) {
  EXPECT_TRUE(CountsPod({{"BestEffort", "Exists"}}, kClassless, true));
  EXPECT_FALSE(CountsPod({{"BestEffort", "Exists"}}, kClassless, false));
  EXPECT_TRUE(CountsPod({{"NotBestEffort", "Exists"}}, kClassless, false));
  EXPECT_FALSE(CountsPod({{"NotBestEffort", "Exists"}}, kClassless, true));
  const Json ends = {{"activeDeadlineSeconds", 60}};
  EXPECT_TRUE(CountsPod({{"Terminating", "Exists"}}, ends));
  EXPECT_FALSE(CountsPod({{"Terminating", "Exists"}}, kClassless));
  EXPECT_TRUE(CountsPod({{"NotTerminating", "Exists"}}, kClassless));
  EXPECT_FALSE(CountsPod({{"NotTerminating", "Exists"}}, ends));
}

TEST(QuotaScopes, AffinityWithPodsOfOtherNamespacesCounts) {
  const QuotaScope scope{"CrossNamespacePodAffinity", "Exists"};
  const auto counts = [&scope](const char* kind, const Json& term) {
    const Json required = {{"requiredDuringSchedulingIgnoredDuringExecution", Json::array({term})}};
    const Json preferred = {{"preferredDuringSchedulingIgnoredDuringExecution",
                             Json::array({{{"weight", 1}, {"podAffinityTerm", term}}})}};
    const bool one = CountsPod({scope}, {{"affinity", {{kind, required}}}});
    EXPECT_EQ(CountsPod({scope}, {{"affinity", {{kind, preferred}}}}), one) << term;
    return one;
  };
  for (const char* kind : {"podAffinity", "podAntiAffinity"}) {
    EXPECT_TRUE(counts(kind, {{"namespaces", {"other"}}}));
    EXPECT_TRUE(counts(kind, {{"namespaceSelector", Json::object()}})) << "all namespaces";
    EXPECT_FALSE(counts(kind, {{"namespaces", Json::array()}, {"topologyKey", "zone"}}));
    EXPECT_FALSE(counts(kind, {{"topologyKey", "zone"}}));
  }
  EXPECT_FALSE(CountsPod({scope}, kClassless));
}

TEST(QuotaScopes, AllOfThemMustHold) {
  const QuotaScope high{"PriorityClass", "In", {"high"}}, ends{"Terminating", "Exists"};
  Json spec = kHigh;
  EXPECT_FALSE(CountsPod({ends, high}, spec));
  spec["activeDeadlineSeconds"] = 60;
  EXPECT_TRUE(CountsPod({ends, high}, spec));
  EXPECT_TRUE(CountsPod({}, kClassless));
  EXPECT_FALSE(CountsPod({{"VolumeAttributesClass", "Exists"}}, spec)) << "it is not about pods";
}

TEST(QuotaScopes, AmountsOfCpuAndMemoryMakeAPodMoreThanBestEffort) {
  const auto best = [](const Json& resources) {
    return IsBestEffort({{"containers", {{{"name", "train"}, {"resources", resources}}}}});
  };
  EXPECT_TRUE(best(Json::object()));
  EXPECT_TRUE(best({{"limits", {{"nvidia.com/gpu", "8"}}}}));
  EXPECT_TRUE(best({{"requests", {{"cpu", "0"}}}}));
  EXPECT_FALSE(best({{"requests", {{"cpu", "1m"}}}}));
  EXPECT_FALSE(best({{"limits", {{"memory", "1Gi"}}}}));
  EXPECT_FALSE(IsBestEffort({{"resources", {{"limits", {{"cpu", "1"}}}}}}));
  const Json sidecar = {{"name", "strobe-sidecar"},
                        {"resources", {{"limits", {{"memory", "2Gi"}}}}}};
  EXPECT_TRUE(IsBestEffort(
      {{"containers", {{{"name", "train"}}}}, {"initContainers", Json::array({sidecar})}}))
      << "it is about the pod without us";
}

}  // namespace

}  // namespace strobe::admission
