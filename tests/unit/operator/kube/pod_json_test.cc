#include "operator/kube/pod_json.h"

#include <gtest/gtest.h>

namespace strobe::kube {
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
  EXPECT_EQ(pod.container, "trainer");
  EXPECT_EQ(pod.env.at("RANK"), "2");
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

}  // namespace
}  // namespace strobe::kube
