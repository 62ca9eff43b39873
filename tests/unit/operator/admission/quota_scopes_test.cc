#include "operator/admission/quota_scopes.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

namespace strobe {
namespace {

using Json = nlohmann::json;

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
}  // namespace strobe
