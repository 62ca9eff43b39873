#include "operator/job/joined_targets.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PodInfo ReplicaOf(const std::string& deployment, int index, bool ready = true) {
  PodInfo pod;
  pod.name = deployment + "-" + std::to_string(index);
  pod.ip = ready ? "10.0.0.1" : "";
  pod.phase = ready ? "Running" : "Pending";
  pod.sidecar_port = 9470;
  pod.containers = {{.name = "server"}};
  pod.trainers = {"server"};
  pod.owners = {PodInfo::Owner{"ReplicaSet", deployment + "-5f7c"}};
  return pod;
}

TargetSpec ServiceTarget(const std::string& name) {
  TargetSpec spec;
  spec.name = name;
  spec.selector = "app=" + name;
  spec.some_replicas = true;
  return spec;
}

TargetSelection SelectedOf(const TargetSpec& spec, const std::vector<PodInfo>& pods,
                           std::size_t least = 1) {
  return {.name = spec.name,
          .least = least,
          .selection = SelectTargets(spec, PodQuery{.selector = spec.selector}, pods)};
}

std::vector<PodInfo> Replicas(const std::string& deployment, int count) {
  std::vector<PodInfo> pods;
  for (int i = 0; i < count; ++i) pods.push_back(ReplicaOf(deployment, i));
  return pods;
}

std::vector<std::string> FilesOf(const std::vector<capture::Target>& targets) {
  std::vector<std::string> files;
  for (const capture::Target& target : targets) files.push_back(target.file);
  return files;
}

TEST(SelectTargets, NeverAllReplicasOfALiveService) {
  const std::pair<int, std::size_t> cases[] = {{1, 1}, {2, 1}, {3, 2}, {4, 2}, {40, 2}};
  for (const auto& [replicas, recorded] : cases) {
    const TargetSelection found = SelectedOf(ServiceTarget("decode"), Replicas("vllm-d", replicas));
    EXPECT_EQ(found.selection.targets.size(), recorded) << "of " << replicas;
    EXPECT_EQ(found.selection.present, static_cast<std::size_t>(replicas));
  }
}

TEST(SelectTargets, TakesReplicasThatCanBeRecorded) {
  std::vector<PodInfo> pods = Replicas("vllm-d", 3);
  pods[0] = ReplicaOf("vllm-d", 0, false);
  TargetSelection found = SelectedOf(ServiceTarget("decode"), pods);
  EXPECT_THAT(FilesOf(found.selection.targets), ElementsAre("decode.vllm-d-1"));
  for (PodInfo& pod : pods) pod.ip.clear();
  found = SelectedOf(ServiceTarget("decode"), pods);
  EXPECT_EQ(found.selection.targets.size(), 3u) << "each says why it cannot";
}

TEST(SelectTargets, RecordsAllOfAJobAndWhatTheRequestSays) {
  std::vector<PodInfo> pods = Replicas("llm", 4);
  for (PodInfo& pod : pods) pod.owners = {PodInfo::Owner{"Job", "llm"}};
  EXPECT_EQ(SelectedOf(ServiceTarget("trainer"), pods).selection.targets.size(), 4u);
  TargetSpec all = ServiceTarget("decode");
  all.some_replicas = false;  // workers: {policy: All}
  EXPECT_EQ(SelectedOf(all, Replicas("vllm-d", 4)).selection.targets.size(), 4u);
}

TEST(JoinTargets, OneTargetStaysAsItIs) {
  TargetSpec spec;
  spec.selector = "app=x";
  const auto joined = JoinTargets({SelectedOf(spec, Replicas("x", 3), 2)});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(FilesOf(joined->targets), ElementsAre("x-0", "x-1", "x-2"));
  EXPECT_TRUE(joined->roles.empty());
  EXPECT_EQ(joined->least, 2u);
  EXPECT_FALSE(joined->expected);
  EXPECT_EQ(joined->job, "ReplicaSet/x-5f7c");
  EXPECT_THAT(joined->note, HasSubstr("3 workers are present"));
}

TEST(JoinTargets, EachWorkerHasItsTargetsRole) {
  const auto joined = JoinTargets({SelectedOf(ServiceTarget("prefill"), Replicas("vllm-p", 1)),
                                   SelectedOf(ServiceTarget("decode"), Replicas("vllm-d", 3), 2)});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(FilesOf(joined->targets),
              ElementsAre("prefill.vllm-p-0", "decode.vllm-d-0", "decode.vllm-d-1"));
  EXPECT_EQ(joined->targets[0].name, "vllm-p-0");
  EXPECT_EQ(joined->targets[2].role, "decode");
  EXPECT_EQ(joined->targets[2].role_from, "request");
  ASSERT_EQ(joined->roles.size(), 2u);
  EXPECT_EQ(joined->roles[1].role, "decode");
  EXPECT_EQ(joined->roles[1].min_workers, 2u);
  EXPECT_EQ(joined->least, 3u);
  EXPECT_EQ(joined->job, "ReplicaSet/vllm-p-5f7c, ReplicaSet/vllm-d-5f7c");
  EXPECT_THAT(joined->note, HasSubstr("prefill: 1 worker is present"));
  EXPECT_THAT(joined->note, HasSubstr("; decode: 3 workers are present"));
}

TEST(JoinTargets, WorkersThatAreMissingHaveDifferentNames) {
  TargetSpec prefill = ServiceTarget("prefill"), decode = ServiceTarget("decode");
  prefill.expected_workers = decode.expected_workers = 1;
  const auto joined = JoinTargets({SelectedOf(prefill, {}), SelectedOf(decode, {})});
  ASSERT_TRUE(joined.ok()) << joined.status();
  ASSERT_EQ(joined->targets.size(), 2u);
  EXPECT_THAT(joined->targets[0].name, HasSubstr("prefill ("));
  EXPECT_THAT(joined->targets[1].name, HasSubstr("decode ("));
  EXPECT_NE(joined->targets[0].file, joined->targets[1].file);
  EXPECT_EQ(joined->expected, 2u);
}

TEST(JoinTargets, APodBelongsToOneTarget) {
  const auto joined = JoinTargets({SelectedOf(ServiceTarget("prefill"), Replicas("vllm", 1)),
                                   SelectedOf(ServiceTarget("decode"), Replicas("vllm", 1))});
  EXPECT_TRUE(absl::IsInvalidArgument(joined.status()));
  EXPECT_EQ(MessageOf(joined.status()),
            "pod vllm-0 is in both prefill and decode; a pod can be in one target only");
}

}  // namespace
}  // namespace strobe::job
