#include "capture/process_workers.h"

#include <gmock/gmock.h>

namespace strobe::capture {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

v1::ProcessRank PlaceOf(std::uint32_t local_rank, std::uint32_t rank) {
  v1::ProcessRank place;
  place.set_local_rank(local_rank);
  place.set_rank(rank);
  return place;
}

WorkerResult RecordedPod(const std::string& name, int rank) {
  WorkerResult pod;
  pod.target.name = pod.target.file = pod.target.pod = name;
  pod.target.rank = rank;
  pod.armed = true;
  pod.outcome = Outcome::kOk;
  pod.report.set_outcome(v1::OK);
  pod.report.set_url("file:///first");
  return pod;
}

// A pod whose sidecar recorded `count` processes; the last one ended with `last`.
WorkerResult SeveralWorkers(const std::string& name, int rank, std::uint32_t count, Outcome last) {
  WorkerResult pod = RecordedPod(name, rank);
  for (std::uint32_t i = 0; i < count; ++i) {
    v1::Report& worker = *pod.report.add_workers();
    *worker.mutable_rank() = PlaceOf(i, static_cast<std::uint32_t>(rank) * count + i);
    worker.set_outcome(i + 1 == count ? static_cast<v1::Outcome>(last) : v1::OK);
    worker.set_message("told by " + std::to_string(i));
    worker.set_url("file:///" + std::to_string(i));
    worker.set_started_ns(100 + i);
  }
  pod.outcome = last;
  pod.report.set_outcome(static_cast<v1::Outcome>(last));
  pod.message = "summary";
  pod.report.set_message("summary");
  return pod;
}

std::vector<std::string> WorkerNames(const std::vector<WorkerResult>& workers) {
  std::vector<std::string> names;
  for (const WorkerResult& worker : workers) names.push_back(worker.target.name);
  return names;
}
std::vector<int> WorkerRanks(const std::vector<WorkerResult>& workers) {
  std::vector<int> ranks;
  for (const WorkerResult& worker : workers) ranks.push_back(worker.target.rank);
  return ranks;
}

TEST(SplitByProcess, PodsWithOneProcessStayAsTheyAre) {
  std::vector<WorkerResult> workers = {RecordedPod("a", 1), RecordedPod("b", 0)};
  workers[0].report.mutable_rank()->CopyFrom(PlaceOf(0, 1));
  SplitByProcess(workers);
  EXPECT_THAT(WorkerNames(workers), ElementsAre("a", "b"));
  EXPECT_THAT(WorkerRanks(workers), ElementsAre(1, 0)) << "process and pod tell the same";
  EXPECT_EQ(workers[0].local_rank, -1);
}

TEST(SplitByProcess, EachProcessIsAWorkerWithItsOwnOutcome) {
  std::vector<WorkerResult> workers = {SeveralWorkers("a", 0, 2, Outcome::kOk),
                                       SeveralWorkers("b", 1, 2, Outcome::kTruncated)};
  SplitByProcess(workers);
  EXPECT_THAT(WorkerNames(workers), ElementsAre("a/0", "a/1", "b/0", "b/1"));
  EXPECT_THAT(WorkerRanks(workers), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(workers[2].outcome, Outcome::kOk);
  EXPECT_EQ(workers[3].outcome, Outcome::kTruncated);
  EXPECT_EQ(workers[3].message, "told by 1");
  EXPECT_EQ(workers[3].target.file, "b.1");
  EXPECT_EQ(workers[3].report.started_ns(), 101);
  EXPECT_EQ(workers[3].local_rank, 1);
}

TEST(SplitByProcess, WhatIsKnownOfThePodIsSaidOfItsProcesses) {
  std::vector<WorkerResult> workers = {SeveralWorkers("a", 0, 2, Outcome::kTruncated)};
  workers[0].message = "container trainer was OOMKilled; summary";
  SplitByProcess(workers);
  EXPECT_EQ(workers[0].message, "");
  EXPECT_EQ(workers[1].message, "container trainer was OOMKilled; told by 1");
}

TEST(SplitByProcess, APodThatIsLostIsLostWithAllProcesses) {
  std::vector<WorkerResult> workers = {SeveralWorkers("a", 0, 2, Outcome::kOk),
                                       RecordedPod("b", 1)};
  workers[1].report.Clear();
  workers[1].outcome = Outcome::kWorkerLost;
  workers[1].ranks = {PlaceOf(0, 2), PlaceOf(1, 3)};
  SplitByProcess(workers);
  EXPECT_THAT(WorkerNames(workers), ElementsAre("a/0", "a/1", "b/0", "b/1"));
  EXPECT_THAT(WorkerRanks(workers), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(workers[3].outcome, Outcome::kWorkerLost);
}

// Regression: 4,096 workers with 4,096 ranks and a copy of the pod's report each, from an answer of
// 40 KB.
TEST(SplitByProcess, WhatASidecarTellsIsNotMultiplied) {
  v1::DescribeResponse description;
  for (std::uint32_t i = 0; i < 64; ++i) {
    v1::Source& source = *description.add_sources();
    for (std::uint32_t j = 0; j < 64; ++j) *source.add_ranks() = PlaceOf(64 * i + j, 64 * i + j);
  }
  WorkerResult pod = RecordedPod("a", 0);
  pod.report.clear_url();
  pod.report.add_processes()->set_message(std::string(1000, 'x'));
  pod.ranks = RanksOf(description);
  std::vector<WorkerResult> workers = {pod};
  SplitByProcess(workers);
  ASSERT_THAT(workers, SizeIs(kMaxWorkersOfPod));
  std::size_t processes = 0, ranks = 0;
  for (const WorkerResult& worker : workers) {
    processes += static_cast<std::size_t>(worker.report.processes_size());
    ranks += worker.ranks.capacity();
  }
  EXPECT_EQ(processes, 1u);
  EXPECT_EQ(ranks, kMaxWorkersOfPod);
}

// A pod whose object says three, and whose sidecar recorded `count`.
WorkerResult PodOfThree(std::uint32_t count, bool annotated) {
  WorkerResult pod = SeveralWorkers("a", 1, count, Outcome::kOk);
  pod.target.expected_processes = 3;
  pod.target.processes_annotated = annotated;
  for (std::uint32_t i = 0; i < count; ++i)
    *pod.report.mutable_workers(static_cast<int>(i))->mutable_rank() = PlaceOf(i, 3 + i);
  return pod;
}

TEST(SplitByProcess, AProcessThatDidNotAnnounceItselfIsMissed) {
  for (const bool annotated : {true, false}) {
    std::vector<WorkerResult> workers = {PodOfThree(2, annotated)};
    SplitByProcess(workers);
    EXPECT_THAT(WorkerNames(workers), ElementsAre("a/0", "a/1", "a/2"));
    EXPECT_THAT(WorkerRanks(workers), ElementsAre(3, 4, 5));
    EXPECT_EQ(workers[1].outcome, Outcome::kOk);
    EXPECT_EQ(workers[2].outcome, Outcome::kWorkerMissing);
    EXPECT_THAT(workers[2].message, testing::HasSubstr("should run 3 processes"));
    EXPECT_EQ(workers[2].target.file, "a.2");
    EXPECT_TRUE(workers[2].report.url().empty());
    EXPECT_FALSE(workers[2].armed);
    workers = {PodOfThree(3, annotated)};
    SplitByProcess(workers);
    EXPECT_THAT(workers, SizeIs(3));
  }
}

TEST(SplitByProcess, OneOfThreeProcessesIsAWorkerAndTwoAreMissed) {
  WorkerResult pod = RecordedPod("a", 0);
  pod.target.expected_processes = 3;
  *pod.report.mutable_rank() = PlaceOf(1, 1);
  std::vector<WorkerResult> workers = {pod};
  SplitByProcess(workers);
  EXPECT_THAT(WorkerNames(workers), ElementsAre("a", "a/0", "a/2"));
  EXPECT_THAT(WorkerRanks(workers), ElementsAre(1, 0, 2));
}

TEST(SplitByProcess, ProcessesWithoutPlacesAreCountedIfAnAnnotationSaysHowMany) {
  for (const bool annotated : {true, false}) {
    WorkerResult pod = RecordedPod("a", 0);
    pod.target.expected_processes = 3;
    pod.target.processes_annotated = annotated;
    pod.report.add_processes()->set_name("python 7");
    pod.report.add_processes()->set_name("python 8");
    std::vector<WorkerResult> workers = {pod};
    SplitByProcess(workers);
    if (annotated)
      EXPECT_THAT(WorkerNames(workers), ElementsAre("a", "a/2"));
    else
      EXPECT_THAT(WorkerNames(workers), ElementsAre("a"));
    pod.report.add_processes()->set_name("python 9");
    workers = {pod};
    SplitByProcess(workers);
    EXPECT_THAT(workers, SizeIs(1));
  }
}

TEST(SplitByProcess, NobodyIsMissedWhereOnlyRanksOfTheJobAreTold) {
  // JAX: a process for each pod, whose number in the job is 2.
  WorkerResult pod = RecordedPod("a", 2);
  *pod.report.mutable_rank() = PlaceOf(2, 2);
  pod.report.mutable_rank()->set_local_rank_assumed(true);
  pod.report.mutable_rank()->set_world_size(8);
  pod.target.expected_processes = 4;
  std::vector<WorkerResult> workers = {pod};
  SplitByProcess(workers);
  EXPECT_THAT(workers, SizeIs(1)) << "the command's launcher would tell local ranks";
  pod.target.expected_processes = 1;
  pod.target.processes_annotated = true;
  workers = {pod};
  SplitByProcess(workers);
  EXPECT_THAT(workers, SizeIs(1));
}

TEST(SplitByProcess, OnlyProcessesThatWereAskedForAreMissed) {
  WorkerResult pod = PodOfThree(1, true);
  pod.target.local_ranks = {0};
  std::vector<WorkerResult> workers = {pod};
  SplitByProcess(workers);
  EXPECT_THAT(WorkerNames(workers), ElementsAre("a/0"));
  pod.target.local_ranks = {0, 2};
  workers = {pod};
  SplitByProcess(workers);
  EXPECT_THAT(WorkerNames(workers), ElementsAre("a/0", "a/2"));
  pod.target.local_ranks = {};
  pod.target.ranks = {3, 5};
  pod.target.expected_processes = 0;
  workers = {pod};
  SplitByProcess(workers);
  EXPECT_THAT(WorkerNames(workers), ElementsAre("a/0", "a/2"));
  EXPECT_THAT(WorkerRanks(workers), ElementsAre(3, 5));
}

TEST(SplitByProcess, APodWithoutAnyProcessHasOneOutcome) {
  WorkerResult pod = RecordedPod("a", 0);
  pod.report.Clear();
  pod.outcome = Outcome::kNoSource;
  pod.target.expected_processes = 64;
  pod.target.processes_annotated = true;
  std::vector<WorkerResult> workers = {pod};
  SplitByProcess(workers);
  EXPECT_THAT(workers, SizeIs(1));
  pod = PodOfThree(2, true);
  pod.outcome = Outcome::kCancelled;
  workers = {pod};
  SplitByProcess(workers);
  EXPECT_THAT(workers, SizeIs(2));
  pod = PodOfThree(2, true);
  pod.target.pod.clear();  // Without Kubernetes, a machine may have several sidecars.
  workers = {pod};
  SplitByProcess(workers);
  EXPECT_THAT(workers, SizeIs(2));
}

TEST(SplitByProcess, OfALostPodOnlyTheProcessesThatWereAskedFor) {
  std::vector<WorkerResult> workers = {RecordedPod("b", 1)};
  workers[0].report.Clear();
  workers[0].outcome = Outcome::kWorkerLost;
  workers[0].ranks = {PlaceOf(0, 2), PlaceOf(1, 3)};
  workers[0].target.local_ranks = {1};
  SplitByProcess(workers);
  EXPECT_THAT(WorkerNames(workers), ElementsAre("b/1"));
}

TEST(SplitByProcess, AnAssumedLocalRankIsNotAskedFor) {
  std::vector<WorkerResult> workers = {RecordedPod("b", 1)};
  workers[0].report.Clear();
  workers[0].outcome = Outcome::kWorkerLost;
  workers[0].ranks = {PlaceOf(2, 2), PlaceOf(3, 3)};
  for (v1::ProcessRank& rank : workers[0].ranks) rank.set_local_rank_assumed(true);
  workers[0].target.local_ranks = {2};
  SplitByProcess(workers);
  EXPECT_THAT(WorkerNames(workers), ElementsAre("b"));
}

TEST(SplitByProcess, APodThatToldNothingHasNoRankAmongProcesses) {
  std::vector<WorkerResult> workers = {SeveralWorkers("a", 0, 2, Outcome::kOk),
                                       RecordedPod("b", 1)};
  workers[1].outcome = Outcome::kSidecarMissing;
  SplitByProcess(workers);
  EXPECT_THAT(WorkerRanks(workers), ElementsAre(0, 1, -1)) << "its rank 1 counts pods";
}

TEST(RanksOf, EachLocalRankOnceWhateverTheSources) {
  v1::DescribeResponse description;
  for (int source = 0; source < 2; ++source) {
    v1::Source& told = *description.add_sources();
    for (const std::uint32_t i : {1u, 0u}) *told.add_ranks() = PlaceOf(i, 8 + i);
  }
  const std::vector<v1::ProcessRank> ranks = RanksOf(description);
  ASSERT_THAT(ranks, SizeIs(2));
  EXPECT_EQ(ranks[0].rank(), 8u);
}

TEST(RanksOf, BesideToldLocalRanksNoneIsAssumed) {
  v1::DescribeResponse description;
  v1::ProcessRank& assumed = *description.add_sources()->add_ranks() = PlaceOf(1, 1);
  assumed.set_local_rank_assumed(true);
  EXPECT_THAT(RanksOf(description), SizeIs(1));
  *description.add_sources()->add_ranks() = PlaceOf(0, 8);
  *description.mutable_sources(1)->add_ranks() = PlaceOf(1, 9);
  const std::vector<v1::ProcessRank> ranks = RanksOf(description);
  ASSERT_THAT(ranks, SizeIs(2));
  EXPECT_EQ(ranks[1].rank(), 9u);
}

TEST(Conclude, APodCountsIfAllItsWorkersDo) {
  Spec spec;
  spec.min_workers = 1;
  AttemptResult result;
  result.workers = {SeveralWorkers("a", 0, 2, Outcome::kOk),
                    SeveralWorkers("b", 1, 2, Outcome::kTruncated)};
  SplitByProcess(result.workers);
  Conclude(spec, result);
  EXPECT_TRUE(result.succeeded);
  EXPECT_EQ(result.ok, 3u);
  EXPECT_THAT(result.message, testing::StartsWith("3 of 4 workers Ok, 1 of 2 pods complete"));
  spec.min_workers = 0;
  result.reason.clear();
  result.succeeded = false;
  Conclude(spec, result);
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(result.reason, "Truncated");
}

}  // namespace
}  // namespace strobe::capture
