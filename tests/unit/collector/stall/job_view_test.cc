#include "collector/stall/job_view.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"
#include "tests/fakes/standing_job.h"

namespace strobe::stall {
namespace {

FlightRecord Nccl(std::int64_t enqueued) {
  return {.version = "2.9",
          .groups = {{.name = "5", .desc = "TP", .ranks = {0, 1}}},
          .statuses = {{.pg_id = 7, .enqueued = enqueued, .completed = 3}},
          .texts = {"", "nccl:_all_gather_base"}};
}

TEST(JobView, TakesTheLargerOfNcclsCountAndTheNewestEntry) {
  JobEvidence evidence;
  evidence.ranks[0].flight = Nccl(4);
  evidence.ranks[0].flight->entries = {{.op = 1, .pg_id = 7, .seq = 5}};
  evidence.ranks[1].flight = Nccl(4);  // Without an entry, known by the ordinal of the other.
  const JobView view = ViewOf(evidence);
  ASSERT_EQ(view.groups.size(), 1u);
  EXPECT_FALSE(view.groups[0].guessed);
  EXPECT_EQ(view.Find(view.first, 0, 0)->launched, 5);
  EXPECT_EQ(view.Find(view.first, 0, 1)->launched, 4);
  EXPECT_EQ(view.Find(view.first, 0, 1)->finished, 3);
  EXPECT_EQ(view.ranks, (std::set<int>{0, 1}));
  EXPECT_FALSE(view.all_twice);
}

TEST(JobView, DoesNotBelieveGloosCounts) {
  JobEvidence evidence;
  evidence.ranks[0].flight = Nccl(45);
  evidence.ranks[0].flight->texts[1] = "gloo:all_gather";
  evidence.ranks[0].flight->entries = {{.op = 1, .pg_id = 7, .seq = 30, .finished = true}};
  const JobView view = ViewOf(evidence);
  EXPECT_EQ(view.Find(view.first, 0, 0)->launched, 30);
}

TEST(JobView, ARecorderThatIsOffTellsNothing) {
  StandingJob job(3);
  job.Waits(0, {0, 1}, 5).Waits(1, {0, 1}, 5);
  EXPECT_TRUE(ViewOf(job.Evidence()).dark.empty()) << "nothing was finished without it";
  job.Did({0, 1}, 4);
  EXPECT_TRUE(ViewOf(job.Evidence()).dark.empty()) << "it is not of this group";
  for (const int rank : {0, 1}) job.DidAlone(rank, job.All(), 3, "broadcast");
  EXPECT_TRUE(ViewOf(job.Evidence()).dark.empty()) << "a broadcast ends without it";
  for (const int rank : {0, 1}) job.DidAlone(rank, job.All(), 2);
  EXPECT_EQ(ViewOf(job.Evidence()).dark, (std::set<int>{2}));
}

TEST(JobView, ATransferIsNoCollective) {
  StandingJob job(2, "nccl");
  job.Did(job.All(), 9).WaitsInTransfer(1, job.All(), 5);
  const JobEvidence evidence = job.Evidence();
  const JobView view = ViewOf(evidence);
  EXPECT_EQ(view.in_transfer, (std::set<int>{1}));
  EXPECT_TRUE(view.Find(view.first, 0, 1)->open.empty());
}

TEST(JobView, GuessesMembersThatNobodyTells) {
  JobEvidence evidence;
  for (const int rank : {3, 6}) {
    evidence.ranks[rank].flight = Nccl(0);
    evidence.ranks[rank].flight->groups[0].ranks.clear();
    evidence.ranks[rank].flight->entries = {{.op = 1, .pg_id = 7, .seq = 1}};
  }
  const JobView view = ViewOf(evidence);
  EXPECT_TRUE(view.groups.at(0).guessed);
  EXPECT_EQ(view.groups[0].ranks, (std::vector<int>{3, 6}));
}

TEST(PlainOp, LeavesOutTheBackend) {
  EXPECT_EQ(PlainOp("nccl:_all_gather_base"), "all_gather_base");
  EXPECT_EQ(PlainOp("gloo:barrier"), "barrier");
  EXPECT_EQ(PlainOp("barrier"), "barrier");
}

TEST(TellsAll, UnlessOnlyActiveCollectivesWereDumped) {
  EXPECT_FALSE(TellsAll(Nccl(4)));
  EXPECT_TRUE(TellsAll(Nccl(0)));
  FlightRecord whole = Nccl(4);
  whole.entries = {{.op = 1, .seq = 5, .finished = true}};
  EXPECT_TRUE(TellsAll(whole));
}

TEST(JobView, TakesManyCountsOfOneOrdinal) {
  FlightRecord counts = Nccl(4), groups = Nccl(0);
  counts.statuses.assign(100'000, counts.statuses[0]);
  groups.groups.clear();
  for (int group = 0; group < 20'000; ++group) {
    groups.groups.push_back({.name = StrCat(group), .desc = "TP", .ranks = {0, 1}});
    groups.entries.push_back(
        {.group = static_cast<std::uint32_t>(group), .op = 1, .pg_id = 7, .seq = 1});
  }
  JobEvidence evidence;
  evidence.ranks[0].flight = counts;
  evidence.ranks[1].flight = groups;
  const JobView view = ViewOf(evidence);
  EXPECT_EQ(view.Find(view.first, 0, 0), nullptr) << "nothing tells which group it is";
}

}  // namespace
}  // namespace strobe::stall
