#include "sidecar/source/inproc/missing_processes.h"

#include <gmock/gmock.h>

namespace strobe::source {
namespace {

using session::Recording;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Announcement Started(std::uint32_t local_rank, std::uint32_t started) {
  Announcement process;
  process.container = "trainer";
  process.pid = 10 + local_rank;
  process.local_rank = local_rank;
  process.local_world_size = started;
  return process;
}

std::vector<Recording> RecordedRanks(const std::vector<int>& local_ranks, int first_rank = 0) {
  std::vector<Recording> recordings;
  for (const int local_rank : local_ranks) {
    Recording& recording = recordings.emplace_back();
    recording.outcome = Outcome::kOk;
    recording.rank = RankOf(first_rank + local_rank, local_rank, 16);
    v1::ProcessReport& row = recording.processes.emplace_back();
    row.set_name("train.py " + std::to_string(10 + local_rank));
    row.set_source(v1::SOURCE_FRAMEWORK);
    row.set_outcome(v1::OK);
    *row.mutable_rank() = *recording.rank;
  }
  return recordings;
}

std::vector<std::uint32_t> LocalRanks(const std::vector<Recording>& recordings) {
  std::vector<std::uint32_t> ranks;
  for (const Recording& recording : recordings) ranks.push_back(recording.rank->local_rank());
  return ranks;
}

TEST(AddMissingProcesses, ALocalRankThatTheLauncherStartedAndNobodyHasIsMissed) {
  std::vector<Recording> recordings = RecordedRanks({0, 2}, 8);
  AddMissingProcesses({}, {{Started(0, 4), Started(2, 4)}, {}}, recordings);
  EXPECT_THAT(LocalRanks(recordings), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(recordings[0].outcome, Outcome::kOk);
  EXPECT_EQ(recordings[1].outcome, Outcome::kWorkerMissing);
  EXPECT_EQ(recordings[1].rank->rank(), 9u);
  EXPECT_EQ(recordings[3].rank->rank(), 11u);
  EXPECT_THAT(recordings[3].message, HasSubstr("started 4 processes"));
  EXPECT_TRUE(recordings[3].xspace.empty());
  recordings = RecordedRanks({0, 1});
  AddMissingProcesses({}, {{Started(0, 2), Started(1, 2)}, {}}, recordings);
  EXPECT_THAT(recordings, SizeIs(2));
}

TEST(AddMissingProcesses, OnlyRanksThatWereAskedForAreMissed) {
  v1::CapturePlan plan;
  plan.add_local_ranks(0);
  std::vector<Recording> recordings = RecordedRanks({0});
  AddMissingProcesses(plan, {{Started(0, 4)}, {}}, recordings);
  EXPECT_THAT(LocalRanks(recordings), ElementsAre(0));
  plan.clear_local_ranks();
  plan.add_ranks(8);
  plan.add_ranks(11);
  recordings = RecordedRanks({0}, 8);
  AddMissingProcesses(plan, {{Started(0, 4)}, {}}, recordings);
  EXPECT_THAT(LocalRanks(recordings), ElementsAre(0, 3));
}

TEST(AddMissingProcesses, NobodyIsMissedWhereTheNumberIsOfOtherProcesses) {
  const auto missed = [](Announcement process, const v1::CapturePlan& plan = {}) {
    std::vector<Recording> recordings = RecordedRanks({0});
    AddMissingProcesses(plan, {{std::move(process)}, {}}, recordings);
    return recordings.size() - 1;
  };
  EXPECT_EQ(missed(Started(0, 2)), 1u);
  Announcement bare = Started(0, 2);
  bare.container.clear();
  EXPECT_EQ(missed(bare), 0u) << "the other process may have a sidecar of its own";
  Announcement launcher = Started(0, 2);
  launcher.trains = false;
  EXPECT_EQ(missed(launcher), 0u);
  v1::CapturePlan plan;
  plan.set_container("other");
  EXPECT_EQ(missed(Started(0, 2), plan), 0u);
  plan.clear_container();
  plan.set_one_trace(true);
  EXPECT_EQ(missed(Started(0, 2), plan), 0u);
  EXPECT_EQ(missed(Started(0, 4'000'000'000)), kMaxRankGroups - 1);
  // JAX tells ranks of the job only.
  std::vector<Recording> recordings = RecordedRanks({0});
  recordings[0].rank = RankOf(2, -1, 8);
  AddMissingProcesses({}, {{Started(0, 2)}, {}}, recordings);
  EXPECT_THAT(recordings, SizeIs(1));
}

TEST(AddMissingProcesses, ACancelledCaptureMissesNobody) {
  std::vector<Recording> recordings = RecordedRanks({0});
  recordings[0].outcome = Outcome::kCancelled;
  AddMissingProcesses({}, {{Started(0, 4)}, {{"trainer@99", "no module", true}}}, recordings);
  ASSERT_THAT(recordings, SizeIs(1));
  EXPECT_THAT(recordings[0].processes, SizeIs(1));
}

TEST(AddMissingProcesses, AProcessInWhichStrobesPartCouldNotStartIsARow) {
  std::vector<Recording> recordings = RecordedRanks({0, 1});
  AddMissingProcesses({}, {{}, {{"trainer@99", "ImportError: torch", true}}}, recordings);
  ASSERT_THAT(recordings[0].processes, SizeIs(2));
  const v1::ProcessReport& row = recordings[0].processes[1];
  EXPECT_EQ(row.name(), "process 99");
  EXPECT_EQ(row.outcome(), v1::PROFILER_START_FAILED);
  EXPECT_THAT(row.message(), HasSubstr("ImportError: torch"));
  EXPECT_EQ(recordings[0].outcome, Outcome::kProfilerStartFailed);
  EXPECT_THAT(recordings[0].message, HasSubstr("1 of 2 processes were recorded as requested"));
  EXPECT_EQ(recordings[1].outcome, Outcome::kOk);
}

TEST(AddMissingProcesses, WithoutAnySourceTheReasonIsTold) {
  std::vector<Recording> recordings = session::OneRecording({Outcome::kNoSource, "nobody", ""});
  AddMissingProcesses({}, {{}, {{"99", "ImportError: torch", true}}}, recordings);
  EXPECT_EQ(recordings[0].outcome, Outcome::kNoSource);
  EXPECT_THAT(recordings[0].message, HasSubstr("nobody; process 99: "));
  EXPECT_THAT(recordings[0].message, HasSubstr("ImportError: torch"));
}

TEST(AddMissingProcesses, WhereTheProcessIsRecordedAllTheSameTheReasonIsANote) {
  std::vector<Recording> recordings = RecordedRanks({0});
  recordings[0].processes[0].set_source(v1::SOURCE_AGENT);
  AddMissingProcesses({}, {{}, {{"trainer@10", "ImportError: torch", true}}}, recordings);
  ASSERT_THAT(recordings[0].processes, SizeIs(1));
  EXPECT_THAT(recordings[0].processes[0].note(), HasSubstr("ImportError: torch"));
  EXPECT_EQ(recordings[0].outcome, Outcome::kOk);
  // A configured profiler server may be the process's.
  recordings = RecordedRanks({0});
  recordings[0].processes[0].set_name("localhost:9012");
  recordings[0].processes[0].clear_rank();
  AddMissingProcesses({}, {{}, {{"trainer@10", "ImportError: torch", true}}}, recordings);
  EXPECT_THAT(recordings[0].processes, SizeIs(1));
  EXPECT_EQ(recordings[0].outcome, Outcome::kOk);
}

Announcement LeftOut(std::uint32_t pid, const std::string& why) {
  Announcement process;
  process.pid = pid;
  process.title = "engine";
  process.trains = false;
  process.why_not = why;
  return process;
}

TEST(AddMissingProcesses, WhoIsLeftOutHasARowWithTheReason) {
  std::vector<Recording> recordings = RecordedRanks({0, 1});
  AddMissingProcesses({}, {{LeftOut(7, "it started others"), LeftOut(8, "")}, {}}, recordings);
  ASSERT_THAT(recordings[0].processes, SizeIs(2)) << "a command that trains nothing has no row";
  const v1::ProcessReport& row = recordings[0].processes[1];
  EXPECT_EQ(row.name(), "engine 7");
  EXPECT_EQ(row.outcome(), v1::OK);
  EXPECT_EQ(row.note(), "left out: it started others");
  EXPECT_EQ(recordings[0].outcome, Outcome::kOk);
  v1::CapturePlan plan;
  plan.add_local_ranks(0);
  recordings = RecordedRanks({0});
  AddMissingProcesses(plan, {{LeftOut(7, "it started others")}, {}}, recordings);
  EXPECT_THAT(recordings[0].processes, SizeIs(1)) << "only ranks were asked for";
}

TEST(AddMissingProcesses, RowsOfThoseLeftOutAreFew) {
  std::vector<Announcement> loaders;
  for (std::uint32_t pid = 100; pid < 150; ++pid) loaders.push_back(LeftOut(pid, "it loads data"));
  std::vector<Recording> recordings = RecordedRanks({0});
  AddMissingProcesses({}, {loaders, {}}, recordings);
  ASSERT_THAT(recordings[0].processes, SizeIs(1 + kMaxLeftOutRows));
  EXPECT_THAT(recordings[0].processes.back().note(), HasSubstr("and 42 more are left out"));
}

TEST(AddMissingProcesses, WithoutAnySourceTheFirstReasonForLeavingOutIsTold) {
  std::vector<Recording> recordings = session::OneRecording({Outcome::kNoSource, "nobody", ""});
  AddMissingProcesses({}, {{LeftOut(7, "it loads data")}, {}}, recordings);
  EXPECT_EQ(recordings[0].outcome, Outcome::kNoSource);
  EXPECT_THAT(recordings[0].message, HasSubstr("nobody; engine 7 was left out: it loads data"));
}

TEST(AddMissingProcesses, OnlyTheAgentWasAsked) {
  v1::CapturePlan plan;
  plan.set_source(v1::SOURCE_AGENT);
  std::vector<Recording> recordings = RecordedRanks({0});
  AddMissingProcesses(plan, {{}, {{"trainer@99", "no", true}}}, recordings);
  EXPECT_THAT(recordings[0].processes, SizeIs(1));
}

TEST(LivingAndUnannounced, LeavesThoseThatNobodyElseTellsOf) {
  const std::vector<Announcement> announced = {Started(0, 1)};
  EXPECT_THAT(LivingAndUnannounced({{"trainer@10", "", true}}, announced), IsEmpty());
  EXPECT_THAT(LivingAndUnannounced({{"other@10", "", true}}, announced), SizeIs(1));
  EXPECT_THAT(LivingAndUnannounced({{"trainer@11", "", true}}, announced), SizeIs(1));
  EXPECT_THAT(LivingAndUnannounced({{"trainer@11", "", false}}, announced), IsEmpty());
}

}  // namespace
}  // namespace strobe::source
