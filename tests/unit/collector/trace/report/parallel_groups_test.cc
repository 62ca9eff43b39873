#include "collector/trace/report/parallel_groups.h"

#include <gtest/gtest.h>

#include <string>

namespace strobe::report {
namespace {

// The names are those that the frameworks give: torch/distributed/device_mesh.py ("mesh_" and the
// name of the dimension), and Megatron-LM's parallel_state.py.
TEST(GroupKindByName, KnowsTheNamesOfFrameworks) {
  const std::pair<const char*, GroupKind> kNamed[] = {
      {"0 default_pg", GroupKind::kAll},
      {"0 mesh_default", GroupKind::kAll},
      {"1 mesh_dp", GroupKind::kData},
      {"1 mesh_dp_shard", GroupKind::kData},
      {"3 mesh_dp_replicate", GroupKind::kData},
      {"1 mesh_fsdp", GroupKind::kData},
      {"7 mesh_dp_shard_cp", GroupKind::kData},
      {"tp1 mesh_tp", GroupKind::kTensor},
      {"2 mesh_pp", GroupKind::kPipeline},
      {"2 mesh_pipeline", GroupKind::kPipeline},
      {"2 mesh_ep", GroupKind::kExpert},
      {"2 mesh_cp", GroupKind::kSequence},
      {"11 DATA_PARALLEL_GROUP", GroupKind::kData},
      {"11 DATA_PARALLEL_GROUP_WITH_CP", GroupKind::kData},
      {"5 TENSOR_MODEL_PARALLEL_GROUP", GroupKind::kTensor},
      {"5 PIPELINE_MODEL_PARALLEL_GROUP", GroupKind::kPipeline},
      {"5 EXPERT_MODEL_PARALLEL_GROUP", GroupKind::kExpert},
      {"5 EXPERT_DATA_PARALLEL_GROUP", GroupKind::kData},
      {"5 CONTEXT_PARALLEL_GROUP", GroupKind::kSequence},
      {"5 TENSOR_AND_DATA_PARALLEL_GROUP", GroupKind::kUnknown},
      {"5 MODEL_PARALLEL_GROUP", GroupKind::kUnknown},
      {"5 EMBEDDING_GROUP", GroupKind::kUnknown},
      {"17", GroupKind::kUnknown},
      {"{{0,1},{2,3}}", GroupKind::kUnknown},
      {"", GroupKind::kUnknown},
  };
  for (const auto& [name, kind] : kNamed) EXPECT_EQ(GroupKindByName(name), kind) << name;
}

RankOrder OrderOfName(const char* name) { return RankOrderOf({.name = name}, std::nullopt); }

TEST(RankOrderOf, ReadsRanksAndReplicaGroups) {
  EXPECT_EQ(RankOrderOf({.size = 2, .ranks = {4, 5}}, 8), RankOrder::kNeighbours);
  EXPECT_EQ(RankOrderOf({.size = 2, .ranks = {1, 5}}, 8), RankOrder::kApart);
  EXPECT_EQ(RankOrderOf({.size = 8}, 8), RankOrder::kAll);
  EXPECT_EQ(RankOrderOf({}, 8), RankOrder::kUnknown);
  EXPECT_EQ(OrderOfName("{{0,1},{2,3}}"), RankOrder::kNeighbours);
  EXPECT_EQ(OrderOfName("{{0,2},{1,3}}"), RankOrder::kApart);
  EXPECT_EQ(OrderOfName("{{0,1,2,3}}"), RankOrder::kAll);
  EXPECT_EQ(OrderOfName("{}"), RankOrder::kAll);
  EXPECT_EQ(OrderOfName("[1,8]<=[8]"), RankOrder::kAll);
  EXPECT_EQ(OrderOfName("[2,4]<=[8]"), RankOrder::kNeighbours);
  EXPECT_EQ(OrderOfName("[4,2]<=[2,4]T(1,0)"), RankOrder::kApart);
  for (const char* damaged :
       {"{{", "{{x},{", "{{0,},{", "{{0},{1}}", "[", "[2,4]", "{{0,99999999999},{"})
    EXPECT_EQ(OrderOfName(damaged), OrderOfName(damaged)) << damaged << " is survived";
}

TEST(GroupKindByCalls, TellsWhatIsUsual) {
  const auto kind_of = [](digest::CollectiveKind called, RankOrder order) {
    CallKinds calls{};
    calls[static_cast<std::size_t>(called)] = 3;
    return GroupKindByCalls(calls, order);
  };
  EXPECT_EQ(kind_of(digest::CollectiveKind::kPermute, RankOrder::kApart), GroupKind::kPipeline);
  EXPECT_EQ(kind_of(digest::CollectiveKind::kSend, RankOrder::kNeighbours), GroupKind::kPipeline);
  EXPECT_EQ(kind_of(digest::CollectiveKind::kAllToAll, RankOrder::kNeighbours), GroupKind::kExpert);
  EXPECT_EQ(kind_of(digest::CollectiveKind::kAllReduce, RankOrder::kNeighbours),
            GroupKind::kTensor);
  EXPECT_EQ(kind_of(digest::CollectiveKind::kReduceScatter, RankOrder::kApart), GroupKind::kData);
  EXPECT_EQ(kind_of(digest::CollectiveKind::kAllReduce, RankOrder::kAll), GroupKind::kAll);
  EXPECT_EQ(kind_of(digest::CollectiveKind::kAllReduce, RankOrder::kUnknown), GroupKind::kUnknown);
  EXPECT_EQ(GroupKindByCalls({}, RankOrder::kAll), GroupKind::kUnknown);
}

TEST(StageOf, IsThePlaceInAPipelinesGroup) {
  digest::Digest digest{.worker = "w", .rank = 5};
  EXPECT_FALSE(StageOf(digest));
  digest.groups = {{.name = "0 default_pg", .size = 8, .ranks = {0, 1, 2, 3, 4, 5, 6, 7}},
                   {.name = "1 mesh_dp", .size = 2, .ranks = {4, 5}},
                   {.name = "2 mesh_pp", .size = 4, .ranks = {1, 3, 5, 7}}};
  EXPECT_EQ(StageOf(digest), 2u);
  // A schedule may run its stages in any order of ranks.
  digest.groups[2].ranks = {7, 5, 3, 1};
  EXPECT_EQ(StageOf(digest), 1u);
  digest.communicators = {digest.groups[2]};
  digest.groups.clear();
  EXPECT_EQ(StageOf(digest), 1u) << "its calls tell the group as well";
  digest.communicators[0].ranks = {1, 3};
  EXPECT_FALSE(StageOf(digest)) << "it is not in it";
  digest.communicators[0].ranks = {7, 5};
  digest.rank.reset();
  EXPECT_FALSE(StageOf(digest));
}

}  // namespace
}  // namespace strobe::report
