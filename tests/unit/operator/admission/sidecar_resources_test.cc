#include "operator/admission/sidecar_resources.h"

#include <gmock/gmock.h>

namespace strobe::admission {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

struct SidecarChoice {
  Json requests{}, limits{};
  std::string cannot{};
  std::vector<std::string> warnings{};
};

SidecarChoice ChooseFor(const Json& resources, const Json& values,
                        const InjectionSettings& settings = {},
                        const NamespaceLimits& limits = {}) {
  const Json spec = {{"containers", {{{"name", "train"}, {"resources", resources}}}}};
  const Json pod = {{"metadata", {{"annotations", values}}}};
  SidecarChoice choice;
  PodAnnotations annotations(pod, choice.warnings);
  const SidecarResources made =
      ChooseResources(spec, settings, limits, annotations, choice.warnings);
  choice.requests = made.resources.value("requests", Json());
  choice.limits = made.resources.value("limits", Json());
  choice.cannot = made.cannot;
  return choice;
}

const Json kNodeInBurstable = {{"requests", {{"cpu", "96"}, {"memory", "500Gi"}}}};
const Json kNodeInGuaranteed = {{"limits", {{"cpu", "96"}, {"memory", "500Gi"}}}};
const Json kNothing = {{"strobe.dev/cpu", "0"}, {"strobe.dev/memory-request", "0"}};

// Requests of "0" are written, because the API server sets missing ones to the limit.
TEST(SidecarResources, APodThatTakesAWholeNodeGetsASidecarThatRequestsNothing) {
  const SidecarChoice choice = ChooseFor(kNodeInBurstable, kNothing);
  EXPECT_EQ(choice.requests, Json({{"cpu", "0"}, {"memory", "0"}}));
  EXPECT_EQ(choice.limits, Json({{"memory", "2Gi"}}));
  EXPECT_THAT(choice.warnings, IsEmpty());
}

TEST(SidecarResources, AllPodsCanHaveSuchASidecar) {
  const InjectionSettings settings{.cpu = "0", .memory = "0"};
  EXPECT_EQ(ChooseFor(kNodeInBurstable, {}, settings).requests,
            Json({{"cpu", "0"}, {"memory", "0"}}));
  const SidecarChoice guaranteed = ChooseFor(kNodeInGuaranteed, {}, settings);
  EXPECT_EQ(guaranteed.requests, Json({{"cpu", "50m"}, {"memory", "2Gi"}}))
      << "a setting for all pods must not cost a pod its class";
  EXPECT_EQ(guaranteed.limits, guaranteed.requests);
  EXPECT_EQ(ChooseFor(kNodeInBurstable, {{"strobe.dev/cpu", "100m"}}, settings).requests["cpu"],
            "100m");
}

TEST(SidecarResources, APodWithALimitOfZeroIsNotGuaranteed) {
  const SidecarChoice choice = ChooseFor({{"limits", {{"cpu", "0"}, {"memory", "500Gi"}}}}, {});
  EXPECT_FALSE(choice.limits.contains("cpu")) << "nothing may throttle a capture";
}

TEST(SidecarResources, OnlyItsOwnAnnotationsCostAPodItsClass) {
  for (const Json& annotations :
       {Json({{"strobe.dev/cpu", "0"}}), Json({{"strobe.dev/memory-request", "0"}}), kNothing}) {
    const SidecarChoice choice = ChooseFor(kNodeInGuaranteed, annotations);
    EXPECT_NE(choice.requests, choice.limits);
    EXPECT_THAT(choice.warnings, Contains(HasSubstr("Burstable instead of Guaranteed")));
  }
  const SidecarChoice kept = ChooseFor(kNodeInGuaranteed, {{"strobe.dev/memory-request", "64Mi"}});
  EXPECT_EQ(kept.requests, kept.limits);
  EXPECT_THAT(kept.warnings, Contains(HasSubstr("must be 0 in a Guaranteed pod")));
}

TEST(SidecarResources, TheMemoryRequestIsAtMostTheLimit) {
  EXPECT_EQ(ChooseFor(kNodeInBurstable, {{"strobe.dev/memory-request", "64Mi"}}).requests["memory"],
            "64Mi");
  const Json small = {{"strobe.dev/memory", "256Mi"}, {"strobe.dev/memory-request", "64Mi"}};
  EXPECT_EQ(ChooseFor(kNodeInBurstable, small).requests["memory"], "64Mi");
  EXPECT_EQ(ChooseFor(kNodeInBurstable, small).limits["memory"], "256Mi");
  const SidecarChoice large = ChooseFor(kNodeInBurstable, {{"strobe.dev/memory-request", "3Gi"}});
  EXPECT_EQ(large.requests["memory"], "128Mi");
  EXPECT_THAT(large.warnings, Contains(HasSubstr("at most the sidecar's memory limit")));
  EXPECT_THAT(ChooseFor(kNodeInBurstable, {{"strobe.dev/memory-request", "much"}}).warnings,
              Contains(HasSubstr("\"much\" is ignored")));
}

// Policy engines demand a limit too, and cannot be read.
TEST(SidecarResources, TheSettingsCanDemandACpuLimit) {
  const InjectionSettings settings{.always_limit_cpu = true};
  const SidecarChoice plain = ChooseFor(kNodeInBurstable, {}, settings);
  EXPECT_EQ(plain.limits, Json({{"cpu", "1"}, {"memory", "2Gi"}}));
  EXPECT_EQ(plain.requests, Json({{"cpu", "50m"}, {"memory", "128Mi"}}));
  EXPECT_EQ(ChooseFor(kNodeInBurstable, {}).limits, Json({{"memory", "2Gi"}}));
  EXPECT_EQ(ChooseFor(kNodeInBurstable, kNothing, settings).limits["cpu"], "1");
  const SidecarChoice large = ChooseFor(kNodeInBurstable, {{"strobe.dev/cpu", "2"}}, settings);
  EXPECT_EQ(large.limits["cpu"], large.requests["cpu"]) << "a limit is at least the request";
  const SidecarChoice guaranteed = ChooseFor(kNodeInGuaranteed, {}, settings);
  EXPECT_EQ(guaranteed.limits["cpu"], "50m") << "where requests equal limits";
}

TEST(SidecarResources, ADemandedCpuLimitStaysWithinThePodsOwnResources) {
  const InjectionSettings settings{.always_limit_cpu = true};
  const auto made = [&settings](const Json& own) {
    const Json spec = {{"containers", {{{"name", "train"}}}}, {"resources", own}};
    std::vector<std::string> warnings;
    PodAnnotations annotations(Json::object(), warnings);
    return ChooseResources(spec, settings, {}, annotations, warnings).resources;
  };
  EXPECT_EQ(made({{"limits", {{"cpu", "500m"}, {"memory", "8Gi"}}}}),
            Json({{"requests", {{"cpu", "0"}}}, {"limits", {{"cpu", "500m"}}}}));
  EXPECT_EQ(made({{"requests", {{"cpu", "4"}}}}),
            Json({{"requests", {{"cpu", "0"}}}, {"limits", {{"cpu", "1"}}}}));
}

TEST(SidecarResources, ABestEffortPodThatAQuotaWouldThenRefuseGetsNoSidecar) {
  const NamespaceLimits limits{.quotas = {{.name = "q",
                                           .hard = {{"limits.memory", 1e12}},
                                           .scopes = {{"NotBestEffort", "Exists"}}}}};
  EXPECT_THAT(ChooseFor(Json::object(), {}, {}, limits).cannot,
              HasSubstr("ResourceQuota q demands limits.memory of every container"));
}

TEST(SidecarResources, WhatANamespaceDemandsComesBeforeNothing) {
  const NamespaceLimits least{.rules = {{.min = {{"cpu", 0.2}, {"memory", 64 * 1024 * 1024}}}}};
  const SidecarChoice choice = ChooseFor(kNodeInBurstable, kNothing, {}, least);
  EXPECT_EQ(choice.requests, Json({{"cpu", "200m"}, {"memory", "67108864"}}));
  // A used up quota of requests leaves room for a sidecar that requests nothing.
  const NamespaceLimits used{
      .quotas = {{.name = "q", .hard = {{"requests.cpu", 96}}, .used = {{"requests.cpu", 0}}}}};
  EXPECT_THAT(ChooseFor(kNodeInBurstable, {}, {}, used).cannot, HasSubstr("no room"));
  EXPECT_EQ(ChooseFor(kNodeInBurstable, kNothing, {}, used).cannot, "");
}

}  // namespace
}  // namespace strobe::admission
