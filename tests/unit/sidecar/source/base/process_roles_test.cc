#include "sidecar/source/base/process_roles.h"

#include <gmock/gmock.h>

#include "sidecar/source/base/process_ranks.h"

namespace strobe::source {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A process that imported PyTorch and did nothing else.
Announcement Idle(std::uint32_t pid, std::uint32_t parent, const std::string& title = "") {
  Announcement process;
  process.pid = pid;
  process.began = 1000 + pid;
  process.parent_pid = parent;
  process.framework = "torch";
  process.title = title;
  return process;
}

Announcement Joined(std::uint32_t pid, std::uint32_t parent, std::uint32_t rank,
                    const std::string& title = "") {
  Announcement process = Idle(pid, parent, title);
  process.joined = true;
  process.rank = rank;
  return process;
}

std::vector<std::uint32_t> PidsOf(Role role, const std::vector<Announcement>& processes) {
  std::vector<std::uint32_t> pids;
  for (const Announcement& process : processes) {
    if (process.trains && process.role == role) pids.push_back(process.pid);
  }
  return pids;
}

// The processes that are left out, and why.
std::vector<std::uint32_t> LeftOutOf(const std::vector<Announcement>& processes) {
  std::vector<std::uint32_t> pids;
  for (const Announcement& process : processes) {
    EXPECT_EQ(process.trains, process.why_not.empty()) << process.pid;
    if (!process.trains) pids.push_back(process.pid);
  }
  return pids;
}

// The local ranks by which the processes are grouped, and the files that these groups have.
std::vector<std::uint32_t> LocalRanksOf(const std::vector<Announcement>& processes) {
  std::vector<Rank> ranks;
  for (const Announcement& process : processes) {
    if (process.trains) ranks.push_back(process.job_rank());
  }
  std::vector<std::uint32_t> local_ranks;
  for (const RankGroup& group : GroupByRank({}, ranks)) {
    if (group.rank) local_ranks.push_back(group.rank->local_rank());
  }
  return local_ranks;
}

TEST(AssignRoles, AServersWorkersAreThoseThatJoinedHoweverFarDownTheTree) {
  // vllm serve with tensor parallelism: API server, engine, two workers, and a tracker of resources
  // that imported nothing.
  std::vector<Announcement> all = {Idle(1, 0), Idle(2, 1), Joined(3, 2, 0), Joined(4, 2, 1)};
  AssignRoles(all);
  EXPECT_THAT(PidsOf(Role::kWorker, all), ElementsAre(3, 4));
  EXPECT_THAT(LeftOutOf(all), ElementsAre(1, 2));
  EXPECT_THAT(all[0].why_not, HasSubstr("started processes of the job"));
}

TEST(AssignRoles, AServersSchedulerIsACompanionAlthoughItStartedTheWorkers) {
  std::vector<Announcement> all = {Idle(1, 0), Idle(2, 1), Joined(3, 2, 0), Joined(4, 2, 1)};
  all[1].schedules = true;
  AssignRoles(all);
  EXPECT_THAT(PidsOf(Role::kWorker, all), ElementsAre(3, 4));
  EXPECT_THAT(PidsOf(Role::kCompanion, all), ElementsAre(2));
  EXPECT_THAT(LeftOutOf(all), ElementsAre(1));
}

TEST(AssignRoles, FrontEndsBesideTheEnginesAreCompanions) {
  // Two replicas: a supervisor with two engines, each with a worker, and two API servers.
  std::vector<Announcement> all = {Idle(1, 0),      Idle(2, 1),         Idle(3, 1), Joined(4, 2, 0),
                                   Joined(5, 3, 0), Idle(6, 1, "Api0"), Idle(7, 1)};
  AssignRoles(all);
  EXPECT_THAT(PidsOf(Role::kWorker, all), ElementsAre(4, 5));
  EXPECT_THAT(PidsOf(Role::kCompanion, all), ElementsAre(6, 7));
  EXPECT_THAT(LeftOutOf(all), ElementsAre(1, 2, 3));
}

TEST(AssignRoles, ADriverBesideItsActorsIsACompanion) {
  // Ray: the parent of the actors is the raylet, which announces nothing.
  std::vector<Announcement> all = {Idle(10, 1, "python"), Joined(11, 5, 0, "ray::Trainer.train"),
                                   Joined(12, 5, 1, "ray::Trainer.train"),
                                   Idle(13, 5, "ray::Rollout.run")};
  AssignRoles(all);
  EXPECT_THAT(PidsOf(Role::kWorker, all), ElementsAre(11, 12));
  EXPECT_THAT(PidsOf(Role::kCompanion, all), ElementsAre(10, 13)) << "recorded, and never missed";
  EXPECT_THAT(LeftOutOf(all), IsEmpty());
}

TEST(AssignRoles, WithoutAnyWorkerNobodyIsACompanion) {
  std::vector<Announcement> all = {Idle(1, 0), Idle(2, 1)};
  AssignRoles(all);
  EXPECT_THAT(PidsOf(Role::kUnclear, all), ElementsAre(1, 2));
  all.push_back(Joined(3, 0, 0));
  all.back().container = "other";
  AssignRoles(all);
  EXPECT_THAT(PidsOf(Role::kUnclear, all), ElementsAre(1, 2)) << "containers are apart";
}

// A rank that hangs before it joins must not look like a companion of the others.
TEST(AssignRoles, ARankOfItsOwnMakesAWorker) {
  std::vector<Announcement> all = {Joined(1, 9, 0), Idle(2, 9), Idle(3, 2)};
  all[1].rank = all[1].local_rank = 1;
  all[2].rank = all[2].local_rank = 1;  // Inherited, by a process that it started.
  AssignRoles(all);
  EXPECT_THAT(PidsOf(Role::kWorker, all), ElementsAre(1, 2));
  EXPECT_THAT(PidsOf(Role::kCompanion, all), ElementsAre(3));
}

TEST(AssignRoles, ARankThatTheWholeContainerHasMakesNoWorker) {
  // An operator set RANK of the pod, so that each process has it.
  std::vector<Announcement> all = {Joined(1, 9, 6), Idle(2, 9), Idle(3, 9)};
  all[1].rank = all[2].rank = 3;
  AssignRoles(all);
  EXPECT_THAT(PidsOf(Role::kCompanion, all), ElementsAre(2, 3));
}

TEST(AssignRoles, WhoToldStepsTrainsBesideWhatItStarted) {
  std::vector<Announcement> all = {Idle(1, 0), Joined(2, 1, 0), Idle(3, 2), Idle(4, 2)};
  all[0].stepped = all[3].stepped = true;
  AssignRoles(all);
  EXPECT_THAT(PidsOf(Role::kWorker, all), ElementsAre(1, 2, 4));
  EXPECT_THAT(LeftOutOf(all), ElementsAre(3)) << "a helper of the one that joined";
}

TEST(AssignRoles, WhatOneFrameworkOfAProcessToldHoldsForAll) {
  std::vector<Announcement> all = {Idle(1, 0), Idle(1, 0), Joined(2, 1, 0)};
  all[1].framework = "jax";
  all[1].stepped = true;
  AssignRoles(all);
  EXPECT_THAT(PidsOf(Role::kWorker, all), ElementsAre(1, 1, 2));
}

TEST(AssignRoles, ParentsInACircleEnd) {
  std::vector<Announcement> all = {Idle(1, 2), Idle(2, 1), Joined(3, 3, 0), Joined(4, 1, 1)};
  AssignRoles(all);
  EXPECT_THAT(PidsOf(Role::kWorker, all), ElementsAre(3, 4));
}

TEST(NumberWorkers, RanksThatDifferStayAsTheyAreTold) {
  std::vector<Announcement> all = {Joined(1, 9, 4), Joined(2, 9, 5), Idle(3, 9)};
  NumberWorkers(all);
  for (const Announcement& process : all) EXPECT_EQ(process.number, std::nullopt);
  EXPECT_TRUE(all[0].job_rank()->local_rank_assumed());
}

// Regression: two replicas of a server that both say rank 0 of 1 shared one worker and its file.
TEST(NumberWorkers, ReplicasWithEqualRanksHaveNumbersOfTheirOwn) {
  std::vector<Announcement> all = {Joined(21, 2, 1), Joined(20, 2, 0), Joined(31, 3, 1),
                                   Joined(30, 3, 0)};
  NumberWorkers(all);
  EXPECT_THAT(LocalRanksOf(all), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(all[1].job_rank()->local_rank(), 0u);
  EXPECT_EQ(all[0].job_rank()->local_rank(), 1u);
  EXPECT_EQ(all[3].job_rank()->local_rank(), 2u);
  EXPECT_EQ(all[2].job_rank()->local_rank(), 3u);
  EXPECT_EQ(all[2].job_rank()->rank(), 1u) << "what it told stays";
  EXPECT_EQ(all[3].Numbered(RankOf(0, -1, 2))->local_rank(), 2u) << "also when it tells it again";
}

// Regression: Ray's actors, of which each has LOCAL_RANK=0.
TEST(NumberWorkers, ActorsWithEqualLocalRanks) {
  std::vector<Announcement> all = {Joined(8, 5, 1), Joined(7, 5, 0)};
  for (Announcement& one : all) one.local_rank = 0;
  NumberWorkers(all);
  EXPECT_EQ(all[1].number, 0u);
  EXPECT_EQ(all[0].number, 1u);
}

TEST(NumberWorkers, TrainersKeepTheirsBesideAServerWithRanksOfItsOwn) {
  std::vector<Announcement> all = {Joined(1, 9, 0), Joined(2, 9, 1), Joined(3, 8, 0),
                                   Joined(4, 8, 1)};
  all[0].local_rank = 0;
  all[1].local_rank = 1;
  NumberWorkers(all);
  EXPECT_THAT(LocalRanksOf(all), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(all[0].number, 0u);
  EXPECT_EQ(all[1].number, 1u);
  EXPECT_EQ(all[2].number, 2u);
}

TEST(NumberWorkers, FrameworksOfAProcessShareItsNumberAndCompanionsHaveNone) {
  std::vector<Announcement> all = {Joined(1, 9, 0), Joined(1, 9, 0), Joined(2, 9, 0), Idle(3, 9)};
  all[1].framework = "jax";
  all[3].rank = 0;
  NumberWorkers(all);
  EXPECT_EQ(all[0].number, 0u);
  EXPECT_EQ(all[1].number, 0u);
  EXPECT_EQ(all[2].number, 1u);
  EXPECT_EQ(all[3].number, std::nullopt);
}

TEST(NumberWorkers, TheOrderIsThatOfTheNumbersInTheirTitles) {
  std::vector<Announcement> all = {Joined(5, 9, 0, "VLLM::Worker_DP10"),
                                   Joined(6, 9, 0, "VLLM::Worker_DP2"),
                                   Joined(7, 9, 0, "VLLM::Worker_DP0")};
  NumberWorkers(all);
  EXPECT_EQ(all[2].number, 0u);
  EXPECT_EQ(all[1].number, 1u);
  EXPECT_EQ(all[0].number, 2u);
}

}  // namespace
}  // namespace strobe::source
