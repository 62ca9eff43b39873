#include "operator/admission/inject.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>

#include "common/base/strings.h"
#include "operator/job/pod.h"
#include "tests/fakes/unit_dir.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const InjectionSettings kSettings{.image = "strobe-sidecar:1", .enrollment = "strobe.ns.svc:9444"};
constexpr char kRoots[] = "-----BEGIN CERTIFICATE-----\n";
InjectionContext Context() { return {.roots = kRoots, .seed = "a review"}; }

Json Pod() {
  return {{"metadata", {{"name", "p"}, {"labels", {{"strobe.dev/inject", "true"}}}}},
          {"spec", {{"containers", {{{"name", "train"}, {"image", "jax"}}}}}}};
}

Json Apply(const Json& pod, const InjectionSettings& settings = kSettings) {
  return pod.patch(Inject(pod, settings, Context()).patch);
}
const Json& Sidecar(const Json& pod) { return pod["spec"]["initContainers"].back(); }
std::string Variable(const Json& container, const std::string& name) {
  for (const Json& entry : container.value("env", Json::array())) {
    if (entry["name"] == name) return entry.value("value", "");
  }
  return "(not set)";
}

TEST(Inject, AddsANativeSidecarThatTheOperatorFinds) {
  const Json pod = Apply(Pod());
  const Json& sidecar = Sidecar(pod);
  EXPECT_EQ(sidecar["restartPolicy"], "Always");
  EXPECT_EQ(sidecar["image"], "strobe-sidecar:1");
  EXPECT_EQ(job::ParsePod(pod).sidecar_port, 9470);
  EXPECT_EQ(job::ParsePod(pod).trainers, std::vector<std::string>{"train"});
  EXPECT_TRUE(job::ParsePod(pod).injected);
  EXPECT_THAT(sidecar["args"], Contains("--enroll=strobe.ns.svc:9444"));
  EXPECT_EQ(Variable(sidecar, "STROBE_ROOTS"), kRoots);
  const Json& trainer = pod["spec"]["containers"][0];
  EXPECT_EQ(Variable(trainer, "STROBE_DIR"), "/var/strobe");
  EXPECT_EQ(Variable(trainer, "CUDA_INJECTION64_PATH"), "/var/strobe/lib/libstrobe_agent.so");
  EXPECT_EQ(Variable(trainer, "PYTHONPATH"), "(not set)") << "an image may have one of its own";
  EXPECT_EQ(trainer["volumeMounts"].size(), 1u) << "no token, no spool for the trainer";
  EXPECT_EQ(pod["metadata"]["labels"]["strobe.dev/injected"], "true");
  EXPECT_THAT(pod["metadata"]["annotations"]["strobe.dev/status"].get<std::string>(),
              HasSubstr(R"("containers":["train"])"));
  EXPECT_EQ(InjectionDamage(pod), "");
}

TEST(Inject, OnlyAddsAndOnlyOnce) {
  const Injection first = Inject(Pod(), kSettings, Context());
  for (const Json& operation : first.patch) EXPECT_EQ(operation["op"], "add");
  const Json patched = Pod().patch(first.patch);
  EXPECT_THAT(Inject(patched, kSettings, Context()).patch, IsEmpty());
  // The pod stays as it was admitted even if the settings have changed since.
  InjectionSettings other = kSettings;
  other.image = "strobe-sidecar:2";
  EXPECT_THAT(Inject(patched, other, {.roots = "other roots"}).patch, IsEmpty());
}

TEST(Inject, ThePodNamesTheImageOfTheViewer) {
  InjectionSettings settings = kSettings;
  settings.viewer_image = "r/strobe-viewer:1";
  const auto named = [](const Json& pod) {
    return pod["metadata"]["annotations"].value("strobe.dev/viewer-image", "(none)");
  };
  const Json patched = Apply(Pod(), settings);
  EXPECT_EQ(named(patched), "r/strobe-viewer:1");
  settings.viewer_image = "r/strobe-viewer:2";
  EXPECT_THAT(Inject(patched, settings, Context()).patch, IsEmpty()) << "as it was admitted";
  Json own = Pod();
  own["metadata"]["annotations"] = {{"strobe.dev/viewer-image", "mine"}};
  EXPECT_EQ(named(Apply(own, settings)), "mine");
  EXPECT_EQ(named(Apply(Pod())), "(none)");
}

TEST(Inject, LeavesWhatTheUserSet) {
  Json pod = Pod();
  pod["metadata"]["annotations"] = {{"strobe.dev/python", "true"}};
  pod["spec"]["containers"][0]["env"] = {{{"name", "CUDA_INJECTION64_PATH"}, {"value", "/mine.so"}},
                                         {{"name", "PYTHONPATH"}, {"valueFrom", {{"x", "y"}}}}};
  const Injection injection = Inject(pod, kSettings, Context());
  const Json patched = pod.patch(injection.patch);
  EXPECT_EQ(Variable(patched["spec"]["containers"][0], "CUDA_INJECTION64_PATH"), "/mine.so");
  EXPECT_EQ(patched["spec"]["containers"][0]["env"][1], pod["spec"]["containers"][0]["env"][1]);
  EXPECT_THAT(injection.warnings, Contains(HasSubstr("sets PYTHONPATH itself")));
}

TEST(Inject, ThePackageGoesBehindThePathsOfTheContainer) {
  Json pod = Pod();
  pod["metadata"]["annotations"] = {{"strobe.dev/python", "true"}};
  pod["spec"]["containers"][0]["env"] = {{{"name", "A"}, {"value", "a"}},
                                         {{"name", "PYTHONPATH"}, {"value", "/app:/lib"}}};
  const Json patched = pod.patch(Inject(pod, kSettings, Context()).patch);
  const Json& trainer = patched["spec"]["containers"][0];
  EXPECT_EQ(Variable(trainer, "PYTHONPATH"), "/app:/lib:/var/strobe/python");
  EXPECT_EQ(Variable(trainer, "A"), "a");
  EXPECT_THAT(Inject(patched, kSettings, Context()).patch, IsEmpty()) << "once";
}

TEST(Inject, TrainersAreNamedOrAskForAcceleratorsOrComeFirst) {
  Json pod = Pod();
  Json& containers = pod["spec"]["containers"];
  containers = {{{"name", "proxy"}},
                {{"name", "a"}, {"resources", {{"limits", {{"nvidia.com/gpu", 8}}}}}},
                {{"name", "b"}, {"resources", {{"limits", {{"google.com/tpu", 4}}}}}}};
  const auto trainers = [](const Json& patched) {
    std::vector<std::string> names;
    for (const Json& container : patched["spec"]["containers"]) {
      if (container.contains("volumeMounts")) names.push_back(container["name"]);
    }
    return names;
  };
  EXPECT_THAT(trainers(Apply(pod)), testing::ElementsAre("a", "b"));
  pod["metadata"]["annotations"] = {{"strobe.dev/containers", "b,nobody"}};
  EXPECT_THAT(trainers(Apply(pod)), testing::ElementsAre("b"));
  EXPECT_THAT(Inject(pod, kSettings, Context()).warnings, Contains(HasSubstr("\"nobody\"")));
}

// Injection and captures recognize accelerators by the same table.
TEST(Inject, AgreesWithCapturesAboutWhoTrains) {
  for (const char* resource :
       {"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-2g.20gb", "amd.com/cpx_nps4",
        "google.com/tpu", "aws.amazon.com/neuroncore", "habana.ai/gaudi", "gpu.intel.com/xe"}) {
    Json pod = Pod();
    pod["spec"]["containers"] = {
        {{"name", "proxy"}, {"resources", {{"limits", {{"nvidia.com/hostdev", 1}}}}}},
        {{"name", "train"}, {"resources", {{"limits", {{resource, 1}}}}}}};
    // A capture chooses the same trainers before the injection and reads them from the annotation
    // after it.
    EXPECT_THAT(job::ParsePod(pod).trainers, testing::ElementsAre("train")) << resource;
    EXPECT_THAT(job::ParsePod(Apply(pod)).trainers, testing::ElementsAre("train")) << resource;
  }
}

TEST(Inject, CudaLoadsTheAgentOnlyWhereThereMayBeCuda) {
  const auto injected = [](const Json& resources) {
    Json pod = Pod();
    pod["spec"]["containers"][0]["resources"] = resources;
    return Variable(Apply(pod)["spec"]["containers"][0], "CUDA_INJECTION64_PATH") != "(not set)";
  };
  EXPECT_TRUE(injected(Json::object())) << "a GPU may come by the runtime class";
  EXPECT_TRUE(injected({{"limits", {{"nvidia.com/mig-1g.5gb", 1}}}}));
  EXPECT_TRUE(injected({{"claims", {{{"name", "gpu"}}}}}));
  EXPECT_FALSE(injected({{"limits", {{"google.com/tpu", 4}}}}));
  EXPECT_FALSE(injected({{"limits", {{"aws.amazon.com/neuron", 1}}}}));
}

TEST(Inject, TheSidecarAsksLibtpuOnlyWhereThereAreTpus) {
  const auto asks = [](const Json& resources) {
    Json pod = Pod();
    pod["spec"]["containers"][0]["resources"] = resources;
    return testing::Value(Sidecar(Apply(pod))["args"], Contains("--tpu-metrics=localhost:8431"));
  };
  EXPECT_TRUE(asks({{"limits", {{"google.com/tpu", 4}}}}));
  EXPECT_FALSE(asks({{"limits", {{"google.com/tpu", "0"}}}})) << "removed from a template";
  EXPECT_FALSE(asks({{"limits", {{"nvidia.com/gpu", 4}}}}));
  EXPECT_FALSE(asks(Json::object()));
}

TEST(Inject, ProgramsOfSeveralTrainersSayWhichContainerTheyAreIn) {
  Json pod = Pod();
  pod["metadata"]["annotations"] = {{"strobe.dev/containers", "train,other"}};
  pod["spec"]["containers"].push_back({{"name", "other"}});
  const Json patched = Apply(pod);
  EXPECT_THAT(Sidecar(patched)["args"], Contains("--containers=train,other"));
  EXPECT_EQ(Variable(patched["spec"]["containers"][0], "STROBE_CONTAINER"), "train");
  EXPECT_EQ(Variable(patched["spec"]["containers"][1], "STROBE_CONTAINER"), "other");
  EXPECT_THAT(Inject(patched, kSettings, Context()).patch, IsEmpty());
  const Json alone = Apply(Pod());
  EXPECT_EQ(Variable(alone["spec"]["containers"][0], "STROBE_CONTAINER"), "(not set)");
  EXPECT_THAT(Sidecar(alone)["args"].dump(), testing::Not(HasSubstr("--containers")));
}

TEST(Inject, AnnotationsChooseAndNonsenseIsPassedOver) {
  Json pod = Pod();
  pod["metadata"]["annotations"] = {{"strobe.dev/framework-port", "9012,9013"},
                                    {"strobe.dev/memory", "1Gi"},
                                    {"strobe.dev/storage-secret", "s3-keys"},
                                    {"strobe.dev/flight-recorder", "10s"},
                                    {"strobe.dev/host-tracing-on-old-servers", "true"},
                                    {"strobe.dev/gpu-tracing-by-servers", "true"},
                                    {"strobe.dev/allow-stalls", "true"},
                                    {"strobe.dev/compat-port", "9471"},
                                    {"strobe.dev/port", "99999"},
                                    {"strobe.dev/cpu", "much"}};
  const Injection injection = Inject(pod, kSettings, Context());
  const Json patched = pod.patch(injection.patch);
  const Json& sidecar = Sidecar(patched);
  EXPECT_THAT(sidecar["args"],
              testing::IsSupersetOf<Json>(
                  {"--framework=localhost:9012,localhost:9013", "--flight-recorder=10s",
                   "--host-tracing-on-old-servers", "--gpu-tracing-by-servers", "--allow-stalls",
                   "--compat-listen=127.0.0.1:9471", "--listen=[::]:9470"}));
  EXPECT_EQ(sidecar["envFrom"][0]["secretRef"]["name"], "s3-keys");
  EXPECT_EQ(sidecar["resources"]["limits"]["memory"], "1Gi");
  EXPECT_EQ(sidecar["resources"]["requests"]["cpu"], "50m");
  EXPECT_THAT(injection.warnings, testing::UnorderedElementsAre(HasSubstr("strobe.dev/port"),
                                                                HasSubstr("strobe.dev/cpu")));
}

TEST(Inject, TheTrainersProfilerPortsAreClosedIfAsked) {
  Json pod = Pod();
  pod["metadata"]["annotations"] = {{"strobe.dev/framework-port", "9100,9101"},
                                    {"strobe.dev/close-profiler-port", "true"}};
  const Injection injection = Inject(pod, kSettings, Context());
  const Json patched = pod.patch(injection.patch);
  EXPECT_EQ(Variable(patched["spec"]["containers"][0], "STROBE_CLOSE_PROFILER_PORT"), "9100,9101");
  EXPECT_THAT(injection.warnings, IsEmpty());
  EXPECT_THAT(Inject(patched, kSettings, Context()).patch, IsEmpty());
  EXPECT_EQ(Variable(Apply(Pod())["spec"]["containers"][0], "STROBE_CLOSE_PROFILER_PORT"),
            "(not set)");
  // Without CUDA, only the Python package can do it.
  pod["spec"]["containers"][0]["resources"] = {{"limits", {{"google.com/tpu", 4}}}};
  EXPECT_THAT(Inject(pod, kSettings, Context()).warnings, Contains(HasSubstr("strobe.dev/python")));
  pod["metadata"]["annotations"]["strobe.dev/python"] = "true";
  EXPECT_THAT(Inject(pod, kSettings, Context()).warnings, IsEmpty());
  pod["metadata"]["annotations"]["strobe.dev/close-profiler-port"] = "yes";
  EXPECT_THAT(Inject(pod, kSettings, Context()).warnings,
              Contains(HasSubstr("close-profiler-port")));
}

TEST(Inject, WhatIsChangedInTrainersCanBeSwitchedOff) {
  Json pod = Pod();
  const auto disabled = [&](const InjectionSettings& settings) {
    const Injection injection = Inject(pod, settings, Context());
    EXPECT_THAT(injection.warnings, IsEmpty());
    const Json patched = pod.patch(injection.patch);
    EXPECT_THAT(Inject(patched, settings, Context()).patch, IsEmpty());
    return Variable(patched["spec"]["containers"][0], "STROBE_DISABLE");
  };
  EXPECT_EQ(disabled(kSettings), "(not set)");
  InjectionSettings settings = kSettings;
  settings.disabled = {"keep-cupti", "server"};
  EXPECT_EQ(disabled(settings), "keep-cupti,server");
  pod["metadata"]["annotations"] = {{"strobe.dev/disable", "steps,torch-results"}};
  EXPECT_EQ(disabled(settings), "steps,torch-results") << "the pod knows better";
  pod["metadata"]["annotations"] = {{"strobe.dev/disable", "none"}};
  EXPECT_EQ(disabled(settings), "(not set)");
  pod["metadata"]["annotations"] = {{"strobe.dev/disable", "steps,no-such-thing"}};
  const Injection odd = Inject(pod, settings, Context());
  EXPECT_THAT(odd.warnings, testing::ElementsAre(HasSubstr("strobe.dev/disable must be")));
  EXPECT_EQ(Variable(pod.patch(odd.patch)["spec"]["containers"][0], "STROBE_DISABLE"),
            "keep-cupti,server");
}

Json KinetoPod() {
  Json pod = Pod();
  pod["metadata"]["annotations"] = {{"strobe.dev/kineto-daemon", "true"}};
  return pod;
}

TEST(Inject, ProcessesWithPyTorchFindTheSidecarAsKinetosDaemon) {
  const Json plain = Apply(Pod());
  EXPECT_EQ(Variable(plain["spec"]["containers"][0], "KINETO_USE_DAEMON"), "(not set)")
      << "it delays and endangers the end of programs, so only by choice";
  Json pod = KinetoPod();
  pod["metadata"]["annotations"]["strobe.dev/kineto-max-duration"] = "5s";
  const Json patched = Apply(pod);
  const Json& trainer = patched["spec"]["containers"][0];
  EXPECT_EQ(Variable(trainer, "KINETO_USE_DAEMON"), "1");
  EXPECT_EQ(Variable(trainer, "KINETO_CONFIG"), "/var/strobe/kineto/libkineto.conf");
  EXPECT_EQ(Variable(trainer, "KINETO_ONDEMAND_TRACE_DIR"), "/var/strobe/kineto/");
  EXPECT_EQ(Variable(trainer, "KINETO_IPC_SOCKET_DIR"), "(not set)");
  EXPECT_EQ(Variable(trainer, "KINETO_LOG_LEVEL"), "(not set)")
      << "it would silence the job's own profiler";
  EXPECT_THAT(Sidecar(patched)["args"],
              testing::IsSupersetOf<Json>(
                  {"--kineto-daemon=/var/strobe/kineto", "--kineto-max-duration=5s"}));
  EXPECT_THAT(Sidecar(patched)["args"], testing::Not(Contains("--kineto-socket-files")));
  EXPECT_THAT(Inject(patched, kSettings, Context()).patch, IsEmpty());
}

// Abstract names belong to the network namespace, which such pods share with their whole node.
TEST(Inject, OnTheHostsNetworkKinetosSocketsAreFiles) {
  Json pod = KinetoPod();
  pod["spec"]["hostNetwork"] = true;
  const Json patched = Apply(pod);
  EXPECT_EQ(Variable(patched["spec"]["containers"][0], "KINETO_IPC_SOCKET_DIR"),
            "/var/strobe/kineto");
  EXPECT_THAT(Sidecar(patched)["args"], Contains("--kineto-socket-files"));
}

TEST(Inject, WhatThePodSetsForKinetoStays) {
  const auto warnings = [](const char* name, const char* value, Json pod = KinetoPod()) {
    pod["spec"]["containers"][0]["env"] = {{{"name", name}, {"value", value}}};
    const Injection injection = Inject(pod, kSettings, Context());
    EXPECT_EQ(Variable(pod.patch(injection.patch)["spec"]["containers"][0], name), value);
    return Join(injection.warnings, "; ");
  };
  EXPECT_THAT(warnings("KINETO_CONFIG", "/mine"), HasSubstr("INTERVAL_SECS=1"));
  EXPECT_THAT(warnings("KINETO_ONDEMAND_TRACE_DIR", "/mine"), HasSubstr("does not find them"));
  EXPECT_THAT(warnings("KINETO_USE_DAEMON", "0"), HasSubstr("sets KINETO_USE_DAEMON itself"));
  EXPECT_EQ(warnings("KINETO_LOG_LEVEL", "6"), "");
  EXPECT_THAT(warnings("KINETO_IPC_SOCKET_DIR", "/mine"), HasSubstr("remove that variable"));
  Json pod = KinetoPod();
  pod["spec"]["hostNetwork"] = true;
  EXPECT_EQ(warnings("KINETO_IPC_SOCKET_DIR", "/var/strobe/kineto", pod), "");
  // Its processes look for another daemon, or cannot write where the sidecar looks.
  pod["spec"]["containers"][0]["env"] = {{{"name", "KINETO_IPC_SOCKET_DIR"}, {"value", "/mine"}}};
  EXPECT_EQ(Variable(Apply(pod)["spec"]["containers"][0], "KINETO_USE_DAEMON"), "(not set)");
  pod = KinetoPod();
  pod["spec"]["containers"][0]["volumeMounts"] = {{{"name", "x"}, {"mountPath", "/var/strobe"}}};
  EXPECT_EQ(Variable(Apply(pod)["spec"]["containers"][0], "KINETO_USE_DAEMON"), "(not set)");
}

TEST(Inject, AWrongValueForKinetoIsAWarning) {
  Json pod = KinetoPod();
  pod["metadata"]["annotations"] = {{"strobe.dev/kineto-daemon", "yes"},
                                    {"strobe.dev/kineto-max-duration", "1h"}};
  const Injection injection = Inject(pod, kSettings, Context());
  EXPECT_THAT(injection.warnings,
              testing::UnorderedElementsAre(HasSubstr("strobe.dev/kineto-daemon must be \"true\""),
                                            HasSubstr("strobe.dev/kineto-max-duration must be")));
  EXPECT_EQ(Variable(pod.patch(injection.patch)["spec"]["containers"][0], "KINETO_USE_DAEMON"),
            "(not set)");
}

TEST(Inject, ALogdirMayLieOnAVolumeOfThePods) {
  Json pod = Pod();
  pod["spec"]["volumes"] = {{{"name", "nfs"}, {"nfs", {{"path", "/x"}}}}};
  pod["metadata"]["annotations"] = {{"strobe.dev/logdir-volume", "nfs:/mnt/logs"}};
  EXPECT_THAT(Sidecar(Apply(pod))["volumeMounts"],
              Contains(Json({{"name", "nfs"}, {"mountPath", "/mnt/logs"}})));
  pod["metadata"]["annotations"] = {{"strobe.dev/logdir-volume", "other:/mnt/logs"}};
  EXPECT_THAT(Inject(pod, kSettings, Context()).warnings, Contains(HasSubstr("logdir-volume")));
}

TEST(Inject, KeepsAGuaranteedPodGuaranteed) {
  Json pod = Pod();
  pod["spec"]["containers"][0]["resources"] = {{"requests", {{"cpu", "8"}, {"memory", "8Gi"}}},
                                               {"limits", {{"cpu", "8"}, {"memory", "8Gi"}}}};
  const Json resources = Sidecar(Apply(pod))["resources"];
  EXPECT_EQ(resources["requests"], resources["limits"]);
  const Json burstable = Sidecar(Apply(Pod()))["resources"];
  EXPECT_FALSE(burstable["limits"].contains("cpu")) << "nothing may throttle a capture";
}

TEST(Inject, SomePodsGetNothing) {
  Json out = Pod(), mirror = Pod(), windows = Pod(), selects = Pod(), own = Pod(), plain = Pod();
  out["metadata"]["labels"]["strobe.dev/inject"] = "false";
  mirror["metadata"]["annotations"] = {{"kubernetes.io/config.mirror", "x"}};
  windows["spec"]["os"] = {{"name", "windows"}};
  selects["spec"]["nodeSelector"] = {{"kubernetes.io/os", "windows"}};
  own["spec"]["initContainers"] = {{{"name", "strobe-sidecar"}}};
  plain["spec"]["containers"].push_back({{"name", "strobe-sidecar"}});
  for (const Json& pod : {out, mirror, windows, selects, own, plain, Json(), Json({{"spec", 1}})}) {
    const Injection injection = Inject(pod, kSettings, Context());
    EXPECT_THAT(injection.patch, IsEmpty()) << pod;
    EXPECT_NE(injection.skipped, "") << pod;
    EXPECT_EQ(InjectionDamage(pod), "") << pod;
  }
}

TEST(Inject, PutsBackWhatOthersTookAway) {
  const Json whole = Apply(Pod());
  Json stripped = whole;
  stripped["spec"]["initContainers"][0].erase("restartPolicy");
  EXPECT_THAT(InjectionDamage(stripped), HasSubstr("modified: restartPolicy"));
  EXPECT_EQ(Apply(stripped), whole);
  Json lost = whole;
  lost["spec"].erase("initContainers");
  EXPECT_EQ(InjectionDamage(lost), "lost");
  EXPECT_EQ(Apply(lost), whole);
  Json without_volume = whole;
  without_volume["spec"]["volumes"].erase(0);
  EXPECT_THAT(InjectionDamage(without_volume), HasSubstr("modified: the volume"));
  EXPECT_EQ(InjectionDamage(Apply(without_volume)), "");
}

TEST(Inject, AMountOfTheUsersInOurPlaceIsLeft) {
  Json pod = Pod();
  pod["spec"]["containers"][0]["volumeMounts"] = {{{"name", "x"}, {"mountPath", "/var/strobe"}}};
  const Injection injection = Inject(pod, kSettings, Context());
  EXPECT_THAT(injection.warnings, Contains(HasSubstr("/var/strobe")));
  EXPECT_THAT(Inject(pod.patch(injection.patch), kSettings, Context()).patch, IsEmpty());
}

// The corpus has pods of other operators and charts. Fields that Strobe does not know must survive.
TEST(Inject, OnACorpusOfRealPods) {
  std::size_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(UnitDir() + "/../golden/pods")) {
    std::ifstream in(entry.path());
    const Json pod = Json::parse(in);
    const Injection injection = Inject(pod, kSettings, Context());
    ASSERT_FALSE(injection.patch.empty()) << entry.path();
    const Json patched = pod.patch(injection.patch);
    EXPECT_THAT(Inject(patched, kSettings, Context()).patch, IsEmpty()) << entry.path();
    EXPECT_EQ(InjectionDamage(patched), "") << entry.path();
    for (const Json& step : Json::diff(pod, patched)) {
      // A null counts as a missing field.
      const bool fills_null =
          step["op"] == "replace" && pod[Json::json_pointer(step["path"])].is_null();
      EXPECT_TRUE(step["op"] == "add" || fills_null) << entry.path() << " " << step;
    }
    ++seen;
  }
  EXPECT_GE(seen, 6u);
}

TEST(Inject, RingsLieInMemoryAndTheirSizeIsBounded) {
  const auto shared = [](const Json& pod) { return Apply(pod)["spec"]["volumes"][0]; };
  EXPECT_EQ(shared(Pod()), Json({{"name", "strobe"},
                                 {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", "512Mi"}}}}));
  Json pod = Pod();
  pod["metadata"]["annotations"] = {{"strobe.dev/agent-memory", "2Gi"}};
  EXPECT_EQ(shared(pod)["emptyDir"]["sizeLimit"], "2Gi");
  for (const char* bad : {"1", "100m", "31Mi", "lots"}) {
    pod["metadata"]["annotations"] = {{"strobe.dev/agent-memory", bad}};
    EXPECT_EQ(shared(pod)["emptyDir"]["sizeLimit"], "512Mi") << bad;
  }
}

TEST(Inject, AVolumeOfTheUsersIsNotTakenForOurs) {
  Json pod = Pod();
  pod["spec"]["volumes"] = {{{"name", "strobe"}, {"persistentVolumeClaim", {{"claimName", "x"}}}},
                            {{"name", "strobe-token"}, {"emptyDir", Json::object()}}};
  const Injection injection = Inject(pod, kSettings, Context());
  const Json patched = pod.patch(injection.patch);
  const Json& trainer = patched["spec"]["containers"][0];
  EXPECT_EQ(trainer["volumeMounts"], Json({{{"name", "strobe-2"}, {"mountPath", "/var/strobe"}}}));
  EXPECT_THAT(Sidecar(patched)["volumeMounts"],
              Contains(Json({{"name", "strobe-token-2"},
                             {"mountPath", "/var/run/secrets/strobe"},
                             {"readOnly", true}})));
  EXPECT_EQ(patched["spec"]["volumes"].size(), 5u);
  EXPECT_EQ(InjectionDamage(patched), "");
  EXPECT_THAT(Inject(patched, kSettings, Context()).patch, IsEmpty());
}

TEST(Inject, PortsDoNotClash) {
  const auto ports = [](const Json& pod) {
    const Json sidecar = Sidecar(Apply(pod));
    return std::pair(sidecar["ports"][0]["containerPort"].get<int>(),
                     sidecar["ports"][1]["containerPort"].get<int>());
  };
  Json pod = Pod();
  pod["metadata"]["annotations"] = {{"strobe.dev/port", "9472"}};
  EXPECT_EQ(ports(pod), std::pair(9472, 9473)) << "the metrics give way";
  pod["metadata"]["annotations"] = {{"strobe.dev/port", "9012"},
                                    {"strobe.dev/compat-port", "9470"}};
  EXPECT_EQ(ports(pod), std::pair(9470, 9472)) << "the trainer's profiler server is there";
  const Injection injection = Inject(pod, kSettings, Context());
  EXPECT_THAT(injection.warnings, testing::UnorderedElementsAre(HasSubstr("strobe.dev/port"),
                                                                HasSubstr("compat-port")));
  pod = Pod();
  pod["spec"]["containers"][0]["ports"] = {{{"containerPort", 9470}}, {{"containerPort", 9472}}};
  EXPECT_EQ(ports(pod), std::pair(9471, 9473));
  pod["metadata"]["annotations"] = {{"strobe.dev/metrics-port", "9100"}};
  EXPECT_EQ(ports(pod).second, 9100);
}

// A request would need a fixed port, and meshes rewrite requests to go through their proxy.
TEST(Inject, TheProbeIsACommandThatNeedsNoPort) {
  const Json sidecar = Sidecar(Apply(Pod()));
  const Json& probe = sidecar["startupProbe"];
  ASSERT_FALSE(probe.contains("httpGet"));
  EXPECT_EQ(probe["exec"]["command"][1], "--is-started");
  EXPECT_THAT(sidecar["args"],
              Contains("--started-file=" + probe["exec"]["command"][2].get<std::string>()));
}

TEST(Inject, OnTheHostsNetworkNoPortIsFixed) {
  Json pod = Pod();
  pod["spec"]["hostNetwork"] = true;
  const Json patched = Apply(pod);
  EXPECT_THAT(Sidecar(patched)["ports"], IsEmpty());
  EXPECT_THAT(Sidecar(patched)["args"].dump(), testing::Not(HasSubstr("--http-listen")));
  const job::PodInfo info = job::ParsePod(patched);
  EXPECT_GE(info.sidecar_port, 20000);
  EXPECT_EQ(info.other_ports.size(), 3u);
  EXPECT_EQ(InjectionDamage(patched), "");
  EXPECT_THAT(Inject(patched, kSettings, {.roots = kRoots, .seed = "b"}).patch, IsEmpty());
  const Json other = pod.patch(Inject(pod, kSettings, {.roots = kRoots, .seed = "b"}).patch);
  EXPECT_NE(job::ParsePod(other).sidecar_port, info.sidecar_port);
  InjectionSettings narrow = kSettings;
  narrow.first_host_port = narrow.last_host_port = 30000;
  EXPECT_EQ(job::ParsePod(Apply(pod, narrow)).sidecar_port, 30000) << "then it is a fixed one";
  InjectionSettings plain = kSettings;
  plain.enrollment.clear();
  EXPECT_EQ(Sidecar(Apply(pod, plain))["ports"].size(), 1u) << "no certificate tells them apart";
}

TEST(Inject, OnTheHostsNetworkTheTrainerLearnsThatItsLoopbackIsTheNodes) {
  Json pod = Pod();
  pod["metadata"]["annotations"] = {{"strobe.dev/close-profiler-port", "true"}};
  EXPECT_EQ(Variable(Apply(pod)["spec"]["containers"][0], "STROBE_HOST_NETWORK"), "(not set)");
  pod["spec"]["hostNetwork"] = true;
  const Injection injection = Inject(pod, kSettings, Context());
  const Json patched = pod.patch(injection.patch);
  EXPECT_EQ(Variable(patched["spec"]["containers"][0], "STROBE_HOST_NETWORK"), "true");
  EXPECT_THAT(injection.warnings, testing::ElementsAre(HasSubstr("over its loopback")));
  pod["spec"]["containers"][0]["env"] = {{{"name", "STROBE_HOST_NETWORK"}, {"value", "false"}}};
  EXPECT_THAT(Inject(pod, kSettings, Context()).warnings,
              Contains(HasSubstr("other programs of the node may reach")));
}

TEST(Inject, IstiosProxyIsBypassed) {
  Json pod = Pod();
  const char* const inbound = "traffic.sidecar.istio.io/excludeInboundPorts";
  const char* const outbound = "traffic.sidecar.istio.io/excludeOutboundPorts";
  EXPECT_EQ(Apply(pod)["metadata"]["annotations"][inbound], "9470,9472");
  EXPECT_EQ(Apply(pod)["metadata"]["annotations"][outbound], "9444");
  pod["metadata"]["annotations"] = {{inbound, "15020,9470"}, {outbound, "9444"}};
  const Json patched = Apply(pod);
  EXPECT_EQ(patched["metadata"]["annotations"][inbound], "15020,9470,9472");
  EXPECT_EQ(patched["metadata"]["annotations"][outbound], "9444");
  EXPECT_THAT(Inject(patched, kSettings, Context()).patch, IsEmpty());
  pod = Pod();
  pod["spec"]["hostNetwork"] = true;
  EXPECT_FALSE(Apply(pod)["metadata"]["annotations"].contains(inbound)) << "it has no proxy";
}

Json Server() {
  Json pod = Pod();
  pod["spec"]["restartPolicy"] = "Always";
  return pod;
}

TEST(Inject, AnOrdinaryContainerIsInjectedOnceAndIsNoTrainer) {
  InjectionSettings settings = kSettings;
  settings.mode = InjectionMode::kContainer;
  const Json patched = Apply(Server(), settings);
  ASSERT_EQ(patched["spec"]["containers"].size(), 2u);
  EXPECT_FALSE(patched["spec"].contains("initContainers"));
  const job::PodInfo info = job::ParsePod(patched);
  EXPECT_EQ(info.sidecar_port, 9470);
  EXPECT_EQ(info.trainers, std::vector<std::string>{"train"});
  EXPECT_EQ(InjectionDamage(patched), "");
  EXPECT_THAT(Inject(patched, settings, Context()).patch, IsEmpty());
  EXPECT_THAT(Inject(patched, kSettings, Context()).patch, IsEmpty())
      << "the mode has changed since";
  EXPECT_TRUE(Apply(Pod(), settings)["spec"].contains("initContainers")) << "it may complete";
}

// Regression: an upload had 25 s, however long the pod was allowed to take. A pod with less time
// killed its sidecar.
TEST(Inject, TheSidecarEndsBeforeThePodIsKilled) {
  const auto grace = [](const Json& seconds, InjectionMode mode) {
    InjectionSettings settings = kSettings;
    settings.mode = mode;
    Json pod = Server();
    pod["spec"]["terminationGracePeriodSeconds"] = seconds;
    const Json patched = Apply(pod, settings);
    const bool native = mode == InjectionMode::kNative;
    const Json& sidecar = native ? Sidecar(patched) : patched["spec"]["containers"].back();
    for (const Json& argument : sidecar["args"]) {
      const auto text = argument.get<std::string>();
      if (text.starts_with("--grace=")) return text.substr(8);
    }
    return std::string("none");
  };
  for (const InjectionMode mode : {InjectionMode::kNative, InjectionMode::kContainer}) {
    EXPECT_EQ(grace(nullptr, mode), "25") << "Kubernetes' default is 30 s";
    EXPECT_EQ(grace(900, mode), "895");
    EXPECT_EQ(grace(10, mode), "5");
    for (const std::int64_t little : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1},
                                      std::int64_t{0}, std::int64_t{3}, std::int64_t{6}})
      EXPECT_EQ(grace(little, mode), "1") << little;
    EXPECT_EQ(grace(3605, mode), "3600");
    EXPECT_EQ(grace(86400, mode), "3600") << "the flag accepts no more";
    EXPECT_EQ(grace("soon", mode), "25");
  }
}

TEST(Inject, ANamespaceWithAStuckSidecarGetsNoMoreNativeOnes) {
  InjectionContext stuck = Context();
  stuck.limits.stuck = {{"first", "strobe-sidecar:1", "ImagePullBackOff"}};
  const Injection left_alone = Inject(Server(), kSettings, stuck);
  EXPECT_THAT(left_alone.skipped, HasSubstr("pod first"));
  const Json told = Server().patch(left_alone.patch);
  EXPECT_EQ(told["metadata"]["annotations"]["strobe.dev/not-injected"], left_alone.skipped);
  EXPECT_EQ(told["spec"], Server()["spec"]);
  EXPECT_THAT(Inject(told, kSettings, stuck).patch, IsEmpty()) << "it is told already";
  EXPECT_EQ(InjectionDamage(told), "") << "nobody took a sidecar away";
  InjectionSettings settings = kSettings;
  settings.mode = InjectionMode::kContainer;
  EXPECT_EQ(Inject(Server(), settings, stuck).skipped, "") << "nothing waits for it";
  settings = kSettings;
  settings.image = "strobe-sidecar:2";
  EXPECT_EQ(Inject(Server(), settings, stuck).skipped, "") << "another image may be there";
}

TEST(Inject, OnlyPodsWithoutClusterDnsGetTheOperatorsAddress) {
  InjectionContext context = Context();
  context.enrollment_address = "10.0.0.1:9444";
  const auto addressed = [&](const char* policy, bool host) {
    Json pod = Pod();
    pod["spec"]["dnsPolicy"] = policy;
    pod["spec"]["hostNetwork"] = host;
    const Json patched = pod.patch(Inject(pod, kSettings, context).patch);
    return Sidecar(patched)["args"].dump().find("--enroll-at=10.0.0.1:9444") != std::string::npos;
  };
  EXPECT_FALSE(addressed("ClusterFirst", false));
  EXPECT_FALSE(addressed("ClusterFirstWithHostNet", true));
  EXPECT_TRUE(addressed("ClusterFirst", true));
  EXPECT_TRUE(addressed("Default", false));
  EXPECT_TRUE(addressed("None", false));
}

TEST(Inject, ALogdirVolumeIsNotMountedOverWhatTheSidecarNeeds) {
  Json pod = Pod();
  pod["spec"]["volumes"] = {{{"name", "v"}, {"emptyDir", Json::object()}}};
  for (const char* path : {"/var/strobe", "/var/strobe/", "/var/strobe/agent", "/var/lib/strobe",
                           "/var", "/", "/usr/lib", "/opt/strobe", "/var/run/secrets/strobe",
                           "/etc", "/a:b", "/a/../etc", "//var//strobe"}) {
    pod["metadata"]["annotations"] = {{"strobe.dev/logdir-volume", std::string("v:") + path}};
    const Injection injection = Inject(pod, kSettings, Context());
    EXPECT_THAT(injection.warnings, Contains(HasSubstr("logdir-volume"))) << path;
    EXPECT_EQ(Sidecar(pod.patch(injection.patch))["volumeMounts"].size(), 3u) << path;
  }
  pod["metadata"]["annotations"] = {{"strobe.dev/logdir-volume", "v:/mnt//logs/"}};
  EXPECT_EQ(Sidecar(Apply(pod))["volumeMounts"][3]["mountPath"], "/mnt/logs");
}

TEST(Inject, APodWithResourcesOfItsOwnKeepsThem) {
  Json pod = Pod();
  pod["spec"]["resources"] = {{"limits", {{"cpu", "1"}, {"memory", "256Mi"}}}};
  EXPECT_EQ(Sidecar(Apply(pod))["resources"], Json::object());
}

TEST(Inject, GuaranteedIsWhatIsEqualHoweverItIsWritten) {
  Json pod = Pod();
  pod["spec"]["containers"][0]["resources"] = {{"requests", {{"cpu", "8000m"}, {"memory", "8Gi"}}},
                                               {"limits", {{"cpu", 8}, {"memory", "8192Mi"}}}};
  EXPECT_TRUE(Sidecar(Apply(pod))["resources"]["limits"].contains("cpu"));
}

TEST(Inject, AContainerThatIsNamedTwiceIsATrainerOnce) {
  Json pod = Pod();
  pod["metadata"]["annotations"] = {{"strobe.dev/containers", "train,train"}};
  EXPECT_EQ(Apply(pod)["spec"]["containers"][0]["volumeMounts"].size(), 1u);
}

// Regression: each name was searched in all containers, and each that is missing had a warning.
TEST(Inject, ManyNamesOfTrainersCostAndWarnLittle) {
  Json pod = Pod();
  for (int i = 1; i < 1000; ++i)
    pod["spec"]["containers"].push_back({{"name", StrCat("other", i)}});
  std::string names;
  for (int i = 0; i < 2'000'000; ++i) names += StrCat("x", i % 100, ",");
  pod["metadata"]["annotations"] = {{"strobe.dev/containers", names + "other999"}};
  const Injection injection = Inject(pod, kSettings, Context());
  EXPECT_EQ(injection.warnings.size(), 16u);
  const Json patched = pod.patch(injection.patch);
  EXPECT_EQ(Variable(patched["spec"]["containers"][0], "STROBE_DIR"), "(not set)");
  EXPECT_EQ(Variable(patched["spec"]["containers"][999], "STROBE_DIR"), "/var/strobe");
}

// Regression: the patch of a small review had 120,000 operations.
TEST(Inject, APodThatNoNodeCouldRunStaysAsItIs) {
  Json pod = Pod();
  pod["spec"]["containers"] = Json::array_t(1001, {{"name", "train"}});
  const Injection injection = Inject(pod, kSettings, Context());
  EXPECT_EQ(injection.skipped, "it has more than 1000 containers");
  EXPECT_THAT(injection.patch, IsEmpty());
}

}  // namespace
}  // namespace strobe::admission
