#include "operator/job/pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace strobe::job {
namespace {

using nlohmann::json;

TEST(ParsePod, FindsANativeSidecarAndTheTrainer) {
  const PodInfo pod = ParsePod(json::parse(R"({
    "metadata": {"name": "w-0", "labels": {"app": "x"}, "ownerReferences": [{"kind": "Job", "name": "j"}]},
    "spec": {"initContainers": [{"name": "strobe-sidecar", "ports": [{"name": "metrics", "containerPort": 1}, {"name": "strobe", "containerPort": 9470}]}],
             "containers": [{"name": "trainer", "env": [{"name": "RANK", "value": "2"}, {"name": "X", "valueFrom": {}}]}]},
    "status": {"podIP": "10.0.0.7", "phase": "Running"}})"));
  EXPECT_EQ(pod.name, "w-0");
  EXPECT_EQ(pod.sidecar_port, 9470);
  EXPECT_EQ(pod.trainers, std::vector<std::string>{"trainer"});
  EXPECT_FALSE(pod.injected);
  ASSERT_EQ(pod.containers.size(), 1u);
  EXPECT_EQ(pod.containers[0].env, (std::map<std::string, std::string>{{"RANK", "2"}}));
  EXPECT_EQ(pod.ip, "10.0.0.7");
  EXPECT_EQ(pod.owners.at(0).name, "j");
}

TEST(ParsePod, APodWithoutOurContainerHasNoPort) {
  EXPECT_EQ(ParsePod(json::parse(
                         R"({"metadata": {"name": "w"}, "spec": {"containers": [{"name": "a"}]}})"))
                .sidecar_port,
            0);
}

TEST(ParsePod, OddTypesLeaveFieldsEmpty) {
  EXPECT_EQ(ParsePod(json::parse(R"({"metadata": {"name": "w"}, "status": {"podIP": 7}})")).ip, "");
  EXPECT_EQ(ParsePod(json::array()).name, "");
}

TEST(ParsePod, TellsWhatTheSidecarAddsToWhatNoNodeHas) {
  json pod = json::parse(R"({
    "spec": {"containers": [{"name": "train"}],
             "initContainers": [{"name": "strobe-sidecar",
                                 "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}}}]},
    "status": {"phase": "Pending", "conditions": [{
      "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
      "message": "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."}]}})");
  EXPECT_EQ(
      ParsePod(pod).unschedulable,
      "cannot be scheduled: Insufficient cpu, nvidia.com/gpu; its sidecar requests cpu 50m of "
      "it");
  pod["spec"]["initContainers"][0]["resources"]["requests"]["cpu"] = "0";
  EXPECT_EQ(ParsePod(pod).unschedulable, "cannot be scheduled: Insufficient cpu, nvidia.com/gpu");
  pod["status"]["conditions"][0]["message"] = "0/3 nodes are available: 3 node(s) were cordoned.";
  EXPECT_EQ(ParsePod(pod).unschedulable, "cannot be scheduled");
  pod["status"]["conditions"][0]["reason"] = "SchedulingGated";
  EXPECT_EQ(ParsePod(pod).unschedulable, "");
}

TEST(ParsePod, KnowsWhatEachContainerAsksFor) {
  const PodInfo pod = ParsePod(json::parse(R"({
    "metadata": {"name": "w"},
    "spec": {"containers": [
      {"name": "nic", "resources": {"limits": {"nvidia.com/hostdev": 8, "cpu": "4"}}},
      {"name": "none", "resources": {"limits": {"nvidia.com/gpu": "0"}}},
      {"name": "shared", "resources": {"limits": {"nvidia.com/gpu.shared": "1"}}},
      {"name": "tpu", "resources": {"limits": {"google.com/tpu": 4}}},
      {"name": "neuron", "resources": {"limits": {"aws.amazon.com/neuron": 1}}},
      {"name": "dra", "resources": {"claims": [{"name": "gpus"}]}}]}})"));
  const auto devices = [&pod](const char* name) { return FindContainer(pod, name)->devices; };
  EXPECT_EQ(devices("nic"), capture::ContainerDevices{});
  EXPECT_EQ(devices("none"), capture::ContainerDevices{});
  EXPECT_TRUE(devices("shared").planes.agent && devices("shared").maybe_cuda);
  EXPECT_TRUE(devices("tpu").planes.framework);
  EXPECT_FALSE(devices("tpu").planes.agent || devices("tpu").maybe_cuda);
  EXPECT_TRUE(devices("neuron").accelerator);
  EXPECT_EQ(devices("neuron").planes, capture::ExpectedPlanes{});
  EXPECT_TRUE(devices("dra").claims && devices("dra").maybe_cuda);
  EXPECT_EQ(devices("dra").planes, capture::ExpectedPlanes{});
  EXPECT_EQ(pod.trainers, (std::vector<std::string>{"shared", "tpu", "neuron"}));
}

TEST(ParsePod, TrainersAreWhomInjectionWroteDown) {
  json object = json::parse(R"({
    "metadata": {"name": "w", "annotations": {"strobe.dev/status": "{\"containers\":[\"b\",\"gone\"]}"}},
    "spec": {"containers": [{"name": "a"}, {"name": "b"}]}})");
  EXPECT_EQ(ParsePod(object).trainers, std::vector<std::string>{"b"});
  EXPECT_TRUE(ParsePod(object).injected);
  for (const char* odd : {"", "[]", "{\"containers\": 7}", "{\"containers\": [7]}", "not json"}) {
    object["metadata"]["annotations"]["strobe.dev/status"] = odd;
    EXPECT_EQ(ParsePod(object).trainers, std::vector<std::string>{"a"}) << odd;
    EXPECT_FALSE(ParsePod(object).injected) << odd;
  }
}

// A rank is often a field of the pod or derived from another variable.
TEST(ParsePod, ResolvesTheVariablesThatRanksComeFrom) {
  const auto env = [](const char* variables) {
    json object = json::parse(
        R"({"metadata": {"name": "w-3", "labels": {"idx": "5"}, "annotations": {"a/b": "6"}},
                                  "spec": {"containers": [{"name": "t"}]}})");
    object["spec"]["containers"][0]["env"] = json::parse(variables);
    return ParsePod(object).containers.at(0).env;
  };
  using Env = std::map<std::string, std::string>;
  constexpr char kFields[] = R"json([
    {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['idx']"}}},
    {"name": "JAX_PROCESS_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a/b']"}}},
    {"name": "HOME", "value": "/x"}])json";
  EXPECT_EQ(env(kFields), (Env{{"RANK", "5"}, {"JAX_PROCESS_ID", "6"}}));
  constexpr char kReferences[] = R"json([
    {"name": "I", "value": "4"}, {"name": "RANK", "value": "$(I)"},
    {"name": "NODE_RANK", "value": "$$(I)"}, {"name": "PROCESS_ID", "value": "$(LATER)"}])json";
  EXPECT_EQ(env(kReferences), (Env{{"RANK", "4"}, {"NODE_RANK", "$(I)"}}));
  // A variable with an unknown value hides an earlier one with the same name.
  constexpr char kSecret[] = R"json([
    {"name": "RANK", "value": "1"},
    {"name": "RANK", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}])json";
  EXPECT_EQ(env(kSecret), Env{});
  // The size of an expanded value is limited.
  constexpr char kBomb[] = R"json([
    {"name": "A", "value": "0123456789012345678901234567890123456789"},
    {"name": "B", "value": "$(A)$(A)$(A)$(A)$(A)$(A)$(A)$(A)$(A)$(A)"},
    {"name": "C", "value": "$(B)$(B)$(B)$(B)"}, {"name": "RANK", "value": "$(C)"}])json";
  EXPECT_EQ(env(kBomb), Env{});
}

TEST(WhyNeverInjected, IsToldOfMirrorsAndWindowsOnly) {
  const auto why = [](const char* pod) { return WhyNeverInjected(json::parse(pod)); };
  EXPECT_EQ(why(R"({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})"),
            "it is the mirror of a static pod");
  EXPECT_EQ(why(R"({"spec": {"os": {"name": "windows"}}})"), "it runs on Windows");
  EXPECT_EQ(why(R"({"metadata": {"annotations": {"a": "b"}}, "spec": {"os": {"name": "linux"}}})"),
            "");
  EXPECT_EQ(why(R"({"metadata": {"annotations": 1}, "spec": []})"), "");
}

// Regression: only spec.os was read, so that such a pod got a sidecar for Linux and never started.
TEST(WhyNeverInjected, IsToldWhereTheSchedulerMayChooseWindowsNodesOnly) {
  const auto windows = [](const std::string& spec) {
    return WhyNeverInjected(json::parse(R"({"spec": {)" + spec + "}}")) == "it runs on Windows";
  };
  const auto affinity = [&](const std::string& terms) {
    return windows(R"("affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [)" +
                   terms + "]}}}");
  };
  const auto term = [](const std::string& key, const std::string& relation,
                       const std::string& values, const std::string& more = "") {
    return R"({"matchExpressions": [{"key": ")" + key + R"(", "operator": ")" + relation +
           R"(", "values": [)" + values + "]}" + more + "]}";
  };
  for (const std::string label : {"kubernetes.io/os", "beta.kubernetes.io/os"}) {
    EXPECT_TRUE(windows(R"("nodeSelector": {")" + label + R"(": "windows"})"));
    EXPECT_FALSE(windows(R"("nodeSelector": {")" + label + R"(": "linux"})"));
    const std::string only = term(label, "In", R"("windows")");
    const std::string not_linux = term(label, "NotIn", R"("linux")");
    const std::string any = term(label, "Exists", "");
    for (const std::string& term_of_windows : {only, not_linux}) {
      EXPECT_TRUE(affinity(term_of_windows)) << term_of_windows;
      EXPECT_TRUE(affinity(term_of_windows + "," + only)) << "each of its terms";
      EXPECT_TRUE(affinity(term_of_windows + ",{}")) << "an empty term fits no node";
      EXPECT_FALSE(affinity(term_of_windows + "," + any)) << "terms are alternatives";
      EXPECT_FALSE(affinity(term_of_windows + "," + term("zone", "In", R"("a")")));
      EXPECT_FALSE(affinity(term_of_windows + R"(,{"matchFields": [{"key": "metadata.name"}]})"));
    }
    EXPECT_FALSE(affinity(term(label, "In", R"("linux", "windows")")));
    EXPECT_FALSE(affinity(term(label, "NotIn", R"("windows")")));
    EXPECT_FALSE(affinity(term(label, "In", R"("linux")")));
    // What is required within a term is required together.
    EXPECT_TRUE(affinity(
        term(label, "In", R"("linux", "windows")",
             R"(, {"key": ")" + label + R"(", "operator": "NotIn", "values": ["linux"]})")));
    EXPECT_TRUE(affinity(
        term("zone", "In", R"("a")",
             R"(, {"key": ")" + label + R"(", "operator": "In", "values": ["windows"]})")));
  }
  EXPECT_TRUE(windows(R"("nodeSelector": {"kubernetes.io/os": "windows", "pool": "gpu"})"));
  EXPECT_FALSE(windows(R"("nodeSelector": {"os": "windows"})")) << "any label";
  EXPECT_FALSE(windows(R"("affinity": {"nodeAffinity": {
      "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": )" +
                       term("kubernetes.io/os", "In", R"("windows")") + "}]}}"))
      << "a wish";
  EXPECT_FALSE(
      windows(R"("os": {"name": "linux"}, "nodeSelector": {"kubernetes.io/os": "windows"})"))
      << "its kubelet refuses it";
  for (const char* odd : {R"("nodeSelector": [])", R"("affinity": {"nodeAffinity": 1})",
                          R"("nodeSelector": {"kubernetes.io/os": 1})"})
    EXPECT_FALSE(windows(odd)) << odd;
}

TEST(ProcessesOf, ReadsTorchrunsOptionHoweverItIsWritten) {
  EXPECT_EQ(ProcessesOf({{"command", {"torchrun", "--nproc-per-node=8", "train.py"}}}), 8u);
  EXPECT_EQ(ProcessesOf({{"args", {"--nproc_per_node", "4", "train.py"}}}), 4u);
  EXPECT_EQ(ProcessesOf({{"command", {"sh", "-c", "torchrun --nproc-per-node 2 train.py"}}}), 2u);
}

TEST(ProcessesOf, GpuAndAutoMeanOneForEachAccelerator) {
  json container = {{"command", {"torchrun", "--nproc-per-node=gpu"}},
                    {"resources", {{"limits", {{"nvidia.com/gpu", "8"}, {"cpu", "96"}}}}}};
  EXPECT_EQ(ProcessesOf(container), 8u);
  container["command"] = {"torchrun", "--nproc-per-node=auto"};
  container["resources"]["limits"]["nvidia.com/gpu"] = 2u;
  EXPECT_EQ(ProcessesOf(container), 2u);
}

TEST(ProcessesOf, ReadsTheVariable) {
  EXPECT_EQ(ProcessesOf({{"env", {{{"name", "PET_NPROC_PER_NODE"}, {"value", "16"}}}}}), 16u);
  EXPECT_EQ(ProcessesOf({{"env",
                          {{{"name", "PET_NPROC_PER_NODE"}, {"value", "1"}},
                           {{"name", "PET_NPROC_PER_NODE"}, {"value", "8"}}}}}),
            8u)
      << "the last one of a name counts";
}

TEST(CertainProcessesOf, OnlyOneNumberInTheCommandIsCertain) {
  EXPECT_EQ(CertainProcessesOf({{"command", {"torchrun", "--nproc-per-node", "8", "t.py"}}}), 8u);
  EXPECT_EQ(CertainProcessesOf({{"args", {"torchrun --nproc_per_node=4 t.py"}}}), 4u);
  const char* two = "torchrun --nproc-per-node 8 a.py; torchrun --nproc_per_node 4 b.py";
  EXPECT_EQ(CertainProcessesOf({{"command", {"sh", "-c", two}}}), 0u);
  EXPECT_EQ(CertainProcessesOf({{"command", {"torchrun", "--nproc-per-node=gpu"}},
                                {"resources", {{"limits", {{"nvidia.com/gpu", "8"}}}}}}),
            0u);
  EXPECT_EQ(CertainProcessesOf({{"env", {{{"name", "PET_NPROC_PER_NODE"}, {"value", "16"}}}}}), 0u);
}

TEST(ProcessesOf, NothingThatTellsIsZero) {
  EXPECT_EQ(ProcessesOf(json::object()), 0u);
  EXPECT_EQ(ProcessesOf({{"command", "torchrun"}, {"env", 7}, {"resources", json::array()}}), 0u);
  for (const char* value : {"", "eight", "-1", "99999999999999999999"})
    EXPECT_EQ(ProcessesOf({{"args", {"--nproc-per-node", value}}}), 0u) << value;
  EXPECT_EQ(ProcessesOf({{"args", {"--nproc-per-node"}}}), 0u);
}

}  // namespace

}  // namespace strobe::job
