#include "operator/admission/sidecar_spec.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"
#include "operator/base/json_fields.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::IsEmpty;

Json PodToTrain() {
  return {{"metadata", {{"name", "p"}}},
          {"spec", {{"containers", {{{"name", "train"}, {"image", "jax"}}}}}}};
}

InjectionSettings Installed() {
  InjectionSettings settings{.image = "s", .enrollment = "o:1"};
  settings.pull_secrets = {"registry"};
  settings.environment.push_back({{"name", "HTTPS_PROXY"}, {"value", "http://proxy:3128"}});
  settings.storage_secret = "traces";
  settings.storage_config = {.secret = "store", .key = "storage.yaml"};
  settings.storage_ca = {.config_map = "ca", .key = "ca.crt"};
  return settings;
}

Json Injected(const Json& pod, const InjectionSettings& settings) {
  return pod.patch(Inject(pod, settings, InjectionContext{.roots = "roots"}).patch);
}
const Json& SidecarOf(const Json& pod) { return pod["spec"]["initContainers"].back(); }

Json VolumeNamed(const Json& pod, const char* name) {
  const Json& volumes = pod["spec"]["volumes"];
  const std::optional<std::size_t> index = kube::Find(volumes, name);
  return index ? volumes[*index] : Json();
}

TEST(SidecarDefaults, FilesAreMountedAndTheirVariablesLeadToThem) {
  const Json pod = Injected(PodToTrain(), Installed());
  EXPECT_EQ(VolumeNamed(pod, "strobe-storage-config")["secret"],
            Json({{"secretName", "store"},
                  {"optional", true},
                  {"items", {{{"key", "storage.yaml"}, {"path", "storage.yaml"}}}}}));
  EXPECT_EQ(VolumeNamed(pod, "strobe-storage-ca")["configMap"]["name"], "ca");
  const Json& sidecar = SidecarOf(pod);
  EXPECT_EQ(kube::VariableOf(sidecar, "STROBE_STORAGE_CONFIG"),
            "/etc/strobe/storage-config/storage.yaml");
  EXPECT_EQ(kube::VariableOf(sidecar, "STROBE_STORAGE_CA_BUNDLE"), "/etc/strobe/storage-ca/ca.crt");
  EXPECT_EQ(kube::VariableOf(sidecar, "HTTPS_PROXY"), "http://proxy:3128");
  EXPECT_THAT(sidecar["volumeMounts"], Contains(Json({{"name", "strobe-storage-ca"},
                                                      {"mountPath", "/etc/strobe/storage-ca"},
                                                      {"readOnly", true}})));
  EXPECT_EQ(sidecar["envFrom"][0]["secretRef"]["name"], "traces");
}

TEST(SidecarDefaults, ThePodsOwnSecretTakesPrecedence) {
  Json pod = PodToTrain();
  pod["metadata"]["annotations"] = {{"strobe.dev/storage-secret", "mine"}};
  const Json patched = Injected(pod, Installed());
  EXPECT_EQ(SidecarOf(patched)["envFrom"],
            Json({{{"secretRef", {{"name", "mine"}, {"optional", true}}}}}));
}

TEST(SidecarDefaults, PullSecretsAreAddedToThoseOfThePod) {
  EXPECT_EQ(Injected(PodToTrain(), Installed())["spec"]["imagePullSecrets"],
            Json({{{"name", "registry"}}}));
  Json pod = PodToTrain();
  pod["spec"]["imagePullSecrets"] = {{{"name", "mine"}}};
  EXPECT_EQ(Injected(pod, Installed())["spec"]["imagePullSecrets"],
            Json({{{"name", "mine"}}, {{"name", "registry"}}}));
  pod["spec"]["imagePullSecrets"] = {{{"name", "registry"}}};
  EXPECT_EQ(Injected(pod, Installed())["spec"]["imagePullSecrets"].size(), 1u);
}

TEST(SidecarDefaults, AnInjectedPodIsRestoredAndNotChanged) {
  const Json whole = Injected(PodToTrain(), Installed());
  EXPECT_THAT(Inject(whole, Installed(), InjectionContext{.roots = "roots"}).patch, IsEmpty());
  // The settings of a pod that was injected before have no effect on it.
  const Json before = Injected(PodToTrain(), {.image = "s", .enrollment = "o:1"});
  EXPECT_THAT(Inject(before, Installed(), InjectionContext{.roots = "roots"}).patch, IsEmpty());
  Json lost = whole;
  lost["spec"].erase("initContainers");
  EXPECT_EQ(Injected(lost, Installed()), whole);
  Json without_volume = whole;
  without_volume["spec"]["volumes"].erase(
      *kube::Find(whole["spec"]["volumes"], "strobe-storage-ca"));
  EXPECT_FALSE(VolumeNamed(Injected(without_volume, Installed()), "strobe-storage-ca").is_null());
}

TEST(SidecarDefaults, AVolumeOfTheUsersKeepsItsName) {
  Json pod = PodToTrain();
  pod["spec"]["volumes"] = {{{"name", "strobe-storage-ca"}, {"emptyDir", Json::object()}}};
  const Json patched = Injected(pod, Installed());
  EXPECT_EQ(VolumeNamed(patched, "strobe-storage-ca-2")["configMap"]["name"], "ca");
  EXPECT_THAT(Inject(patched, Installed(), InjectionContext{.roots = "roots"}).patch, IsEmpty());
}

TEST(SidecarDefaults, DiskIsRequested) {
  InjectionSettings settings = Installed();
  EXPECT_FALSE(SidecarOf(Injected(PodToTrain(), settings))["resources"]["requests"].contains(
      "ephemeral-storage"));
  settings.ephemeral_storage = "3Gi";
  const Json sidecar = SidecarOf(Injected(PodToTrain(), settings));
  EXPECT_EQ(sidecar["resources"]["requests"]["ephemeral-storage"], "3Gi");
  Json resources = {{"limits", {{"ephemeral-storage", "2Gi"}}}};
  RequestDisk(settings, resources);
  EXPECT_EQ(resources["limits"]["ephemeral-storage"], "3Gi") << "a request is at most its limit";
  resources["limits"]["ephemeral-storage"] = "4Gi";
  RequestDisk(settings, resources);
  EXPECT_EQ(resources["limits"]["ephemeral-storage"], "4Gi");
}

TEST(SidecarDefaults, TheUserAndTheMetricsPortCanBeChosen) {
  Json pod = PodToTrain();
  InjectionSettings settings = Installed();
  settings.metrics_port = 9100;
  pod["metadata"]["annotations"] = {{"strobe.dev/user", "1000:100"}};
  const Json sidecar = SidecarOf(Injected(pod, settings));
  EXPECT_EQ(sidecar["securityContext"]["runAsUser"], 1000);
  EXPECT_EQ(sidecar["securityContext"]["runAsGroup"], 100);
  EXPECT_EQ(sidecar["ports"][1]["containerPort"], 9100);
  settings.user = std::nullopt;
  pod["metadata"]["annotations"] = {{"strobe.dev/user", "1000"}};
  EXPECT_EQ(SidecarOf(Injected(pod, settings))["securityContext"]["runAsGroup"], 1000);
  pod["metadata"]["annotations"] = {{"strobe.dev/user", "0"}};
  const Injection refused = Inject(pod, settings, InjectionContext{.roots = "roots"});
  EXPECT_THAT(refused.warnings, Contains(testing::HasSubstr("strobe.dev/user")));
  EXPECT_FALSE(SidecarOf(pod.patch(refused.patch))["securityContext"].contains("runAsUser"));
}

TEST(SidecarDefaults, TheNamespacesPoliciesChooseTheUserBeforeTheSettingsDo) {
  Json pod = PodToTrain();
  InjectionContext context{.roots = "roots"};
  const auto user = [&] {
    const Json security =
        SidecarOf(pod.patch(Inject(pod, Installed(), context).patch))["securityContext"];
    return StrCat(security["runAsUser"].get<int>(), ":", security["runAsGroup"].get<int>());
  };
  context.limits.sidecar_user = kube::SidecarUser{1000, 100};
  EXPECT_EQ(user(), "1000:100");
  context.limits = {.users_differ = "the policies differ"};
  EXPECT_EQ(user(), "65532:65532");
  EXPECT_THAT(Inject(pod, Installed(), context).warnings,
              Contains("the policies differ; the sidecar runs as the chart's user"));
  pod["metadata"]["annotations"] = {{"strobe.dev/user", "7:8"}};
  EXPECT_EQ(user(), "7:8");
  EXPECT_THAT(Inject(pod, Installed(), context).warnings, IsEmpty()) << "the pod has chosen";
}

TEST(SidecarDefaults, GpusAreRecordedAtAllTimesOnlyIfAPolicyAllowsIt) {
  Json pod = PodToTrain();
  InjectionContext context{.roots = "roots"};
  const auto arguments = [&] {
    return SidecarOf(pod.patch(Inject(pod, Installed(), context).patch))["args"]
        .get<std::vector<std::string>>();
  };
  const auto warnings = [&] { return Inject(pod, Installed(), context).warnings; };
  const std::string flag = "--flight-recorder-devices";
  pod["metadata"]["annotations"] = {{"strobe.dev/flight-recorder", "30s"},
                                    {"strobe.dev/flight-recorder-devices", "true"}};
  EXPECT_THAT(arguments(), testing::Not(Contains(flag)));
  EXPECT_THAT(warnings(), Contains(testing::HasSubstr("sidecar.flightRecorderDevices: true")));
  context.limits.flight_recorder_devices = true;
  EXPECT_THAT(arguments(), testing::AllOf(Contains(flag), Contains("--flight-recorder=30s")));
  EXPECT_THAT(warnings(), IsEmpty());
  pod["metadata"]["annotations"].erase("strobe.dev/flight-recorder");
  EXPECT_THAT(arguments(), testing::Not(Contains(flag)));
  EXPECT_THAT(warnings(), Contains(testing::HasSubstr("needs strobe.dev/flight-recorder")));
}

// Regression: each name that is taken was searched in all volumes.
TEST(VolumesFor, FindsAFreeNameAmongMany) {
  Json pod = PodToTrain();
  Json& volumes = pod["spec"]["volumes"] = {{{"name", "strobe"}}};
  for (int i = 2; i <= 100'000; ++i) volumes.push_back({{"name", StrCat("strobe-", i)}});
  EXPECT_EQ(VolumesFor(pod).shared, "strobe-100001");
  EXPECT_EQ(VolumesFor(pod).spool, "strobe-spool");
}

}  // namespace
}  // namespace strobe::admission
