#include "sidecar/source/base/process_ranks.h"

#include <gmock/gmock.h>

namespace strobe::source {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

Rank Local(int local_rank) { return RankOf(-1, local_rank, -1); }

TEST(RankOf, AProcessThatTellsOnlyItsRankHasNoOther) {
  EXPECT_EQ(RankOf(-1, -1, 8), std::nullopt);
  EXPECT_EQ(RankOf(9, -1, 16)->local_rank(), 9u);
  EXPECT_TRUE(RankOf(9, -1, 16)->local_rank_assumed());
  const Rank rank = RankOf(9, 1, 16);
  EXPECT_EQ(rank->local_rank(), 1u);
  EXPECT_EQ(rank->rank(), 9u);
  EXPECT_EQ(rank->world_size(), 16u);
  EXPECT_FALSE(rank->local_rank_assumed());
  EXPECT_FALSE(Local(3)->has_rank());
}

TEST(IsWanted, OnlyTheRanksThatThePlanAsksFor) {
  v1::CapturePlan plan;
  EXPECT_TRUE(IsWanted(plan, std::nullopt));
  plan.add_ranks(9);
  EXPECT_FALSE(IsWanted(plan, std::nullopt)) << "a launcher is not asked for";
  EXPECT_TRUE(IsWanted(plan, RankOf(9, 1, 16)));
  EXPECT_FALSE(IsWanted(plan, RankOf(8, 0, 16)));
  EXPECT_FALSE(IsWanted(plan, Local(9))) << "its rank in the job is not known";
  plan.add_local_ranks(0);
  EXPECT_FALSE(IsWanted(plan, RankOf(9, 1, 16)));
}

// Regression: local rank 0 of each pod was rank 0 of the job where processes tell only that.
TEST(IsWanted, AnAssumedLocalRankIsNotMeant) {
  v1::CapturePlan plan;
  plan.add_local_ranks(0);
  EXPECT_TRUE(IsWanted(plan, RankOf(8, 0, 16)));
  EXPECT_FALSE(IsWanted(plan, RankOf(0, -1, 16)));
  plan.clear_local_ranks();
  plan.add_ranks(0);
  EXPECT_TRUE(IsWanted(plan, RankOf(0, -1, 16)));
}

TEST(GroupByRank, ProcessesOfOneRankAreOneWorker) {
  const auto groups = GroupByRank({}, {std::nullopt, Local(2), Local(2)});
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].rank->local_rank(), 2u);
  EXPECT_THAT(groups[0].members, ElementsAre(0, 1, 2));
  EXPECT_THAT(GroupByRank({}, {}), SizeIs(1));
  EXPECT_EQ(GroupByRank({}, {std::nullopt})[0].rank, std::nullopt);
}

TEST(GroupByRank, EachLocalRankIsAWorkerAndOthersJoinTheFirst) {
  const auto groups = GroupByRank({}, {Local(3), std::nullopt, Local(1), Local(3)});
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].rank->local_rank(), 1u);
  EXPECT_THAT(groups[0].members, ElementsAre(1, 2));
  EXPECT_THAT(groups[1].members, ElementsAre(0, 3));
}

TEST(GroupByRank, ProcessesThatTellOnlyTheirRanksAreWorkersByThem) {
  const auto groups = GroupByRank({}, {RankOf(9, -1, 16), RankOf(8, -1, 16)});
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].rank->rank(), 8u);
  EXPECT_THAT(groups[0].members, ElementsAre(1));
}

// Regression: the process with rank 1 of the job was recorded as one with that of local rank 1.
TEST(GroupByRank, BesideToldLocalRanksNoneIsAssumed) {
  const auto groups =
      GroupByRank({}, {RankOf(1, -1, 16), RankOf(8, 0, 16), RankOf(9, 1, 16), RankOf(9, -1, 16)});
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].rank->rank(), 8u);
  EXPECT_THAT(groups[0].members, ElementsAre(0, 1));
  EXPECT_THAT(groups[1].members, ElementsAre(2, 3)) << "one rank of the job is one worker";
}

TEST(GroupByRank, OneTraceIfThePlanAsksForIt) {
  v1::CapturePlan plan;
  plan.set_one_trace(true);
  const auto groups = GroupByRank(plan, {Local(0), Local(1)});
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].rank, std::nullopt);
  EXPECT_THAT(groups[0].members, ElementsAre(0, 1));
}

TEST(GroupByRank, TheNumberOfWorkersIsBounded) {
  std::vector<Rank> ranks;
  for (int i = 0; i < 500; ++i) ranks.push_back(Local(i));
  const auto groups = GroupByRank({}, ranks);
  ASSERT_THAT(groups, SizeIs(kMaxRankGroups));
  EXPECT_THAT(groups[0].members, SizeIs(500 - kMaxRankGroups + 1)) << "nobody is left out";
}

}  // namespace
}  // namespace strobe::source
