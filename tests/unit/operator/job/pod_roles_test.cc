#include "operator/job/pod_roles.h"

#include <gmock/gmock.h>

#include "operator/job/pod.h"

namespace strobe::job {
namespace {

PodInfo LabelledPod(const std::map<std::string, std::string>& labels) {
  PodInfo pod;
  pod.labels = labels;
  pod.containers = {{.name = "server"}};
  pod.trainers = {"server"};
  return pod;
}

// The labels are those of the projects' own manifests.
TEST(RoleOf, ReadsTheLabelsOfServingFrameworks) {
  const std::pair<const char*, const char*> labels[] = {
      {"llm-d.ai/role", "prefill"},
      {"nvidia.com/dynamo-sub-component-type", "decode"},
      {"nvidia.com/dynamo-component-type", "worker"},
      {"rbg.workloads.x-k8s.io/role-name", "router"},
      {"rolebasedgroup.workloads.x-k8s.io/role", "scheduler"},
      {"modelserving.volcano.sh/role", "prefill"},
      {"role-name", "decode"}};
  for (const auto& [key, value] : labels) {
    const PodRole role = RoleOf(LabelledPod({{key, value}}));
    EXPECT_EQ(role.role, value);
    EXPECT_EQ(role.from, std::string("label ") + key);
    EXPECT_TRUE(IsRoleKey(key));
  }
  EXPECT_FALSE(IsRoleKey("app"));
}

TEST(RoleOf, TheMoreExactLabelCounts) {
  EXPECT_EQ(RoleOf(LabelledPod({{"nvidia.com/dynamo-component-type", "worker"},
                                {"nvidia.com/dynamo-sub-component-type", "prefill"}}))
                .role,
            "prefill");
}

TEST(RoleOf, ALabelThatAnybodyMayUseCountsOnlyWithKnownValues) {
  EXPECT_EQ(RoleOf(LabelledPod({{"role-name", "backend"}})).role, "");
  EXPECT_EQ(RoleOf(LabelledPod({{"llm-d.ai/role", ""}})).role, "");
}

TEST(RoleOf, TheServersOwnOptionsCountAfterLabels) {
  PodInfo pod = LabelledPod({});
  pod.containers[0].role = "decode";
  EXPECT_EQ(RoleOf(pod).role, "decode");
  EXPECT_EQ(RoleOf(pod).from, "command of container server");
  pod.labels["llm-d.ai/role"] = "prefill";
  EXPECT_EQ(RoleOf(pod).role, "prefill");
}

TEST(RoleInCommand, KnowsVllmAndSglang) {
  EXPECT_EQ(RoleInCommand("python -m sglang.launch_server --disaggregation-mode prefill"),
            "prefill");
  EXPECT_EQ(RoleInCommand("--disaggregation-mode=decode --tp 8"), "decode");
  EXPECT_EQ(RoleInCommand("--disaggregation-mode null"), "");
  EXPECT_EQ(RoleInCommand("vllm serve m --kv-transfer-config "
                          R"({"kv_connector":"P2pNcclConnector","kv_role": "kv_producer"})"),
            "prefill");
  EXPECT_EQ(
      RoleInCommand(R"(sh -c "vllm serve --kv-transfer-config {\"kv_role\":\"kv_consumer\"}")"),
      "decode");
  EXPECT_EQ(RoleInCommand(R"(--kv-transfer-config {"kv_role":"kv_both"})"), "")
      << "NixlConnector's usual value on both sides";
  EXPECT_EQ(RoleInCommand("--disaggregation-mode"), "");
  EXPECT_EQ(RoleInCommand("kv_role of what is not said          kv_producer"), "");
  EXPECT_EQ(RoleInCommand(""), "");
}

TEST(ParsePod, ReadsTheRoleOfTheCommandAndKeepsItsLabel) {
  const auto object = nlohmann::json::parse(R"({
    "metadata": {"name": "p", "labels": {"llm-d.ai/role": "prefill", "app": "vllm"}},
    "spec": {"containers": [{"name": "s", "command": ["sglang"], "args": ["--disaggregation-mode", "decode"]}]}})");
  PodInfo pod = ParsePod(object);
  KeepUsed(pod);
  EXPECT_EQ(pod.containers[0].role, "decode");
  EXPECT_EQ(pod.labels, (std::map<std::string, std::string>{{"llm-d.ai/role", "prefill"}}));
}

}  // namespace
}  // namespace strobe::job
