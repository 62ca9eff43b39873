#include "operator/request/request_status.h"

#include <gmock/gmock.h>

namespace strobe::request {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr WallTime kStatusNow{1'700'000'000s};

objects::ProfileRequest Request() {
  objects::ProfileRequest request;
  request.name = "look";
  request.generation = 3;
  request.capture.logdir = "/logs";
  request.capture.run = "run";
  return request;
}

capture::AttemptResult Result(std::size_t workers, Outcome last) {
  capture::AttemptResult result;
  for (std::size_t i = 0; i < workers; ++i) {
    capture::WorkerResult& worker = result.workers.emplace_back();
    worker.target.name = "a-rather-long-name-of-a-training-pod-" + std::to_string(i);
    worker.armed = true;
    worker.outcome = i + 1 == workers ? last : Outcome::kOk;
    worker.message = worker.outcome == Outcome::kOk ? "" : std::string(2000, 'm');
    worker.error = 20us;
    worker.report.set_url("x");
    worker.report.set_bytes(10);
    worker.report.set_started_ns(1);
    worker.report.set_covers_window(true);
  }
  capture::Conclude({}, result);
  return result;
}

TEST(RequestStatus, EveryConditionIsThereWithAReasonFromTheFirstVisitOn) {
  const capture::AttemptProgress progress;
  for (const objects::RequestStatus& status :
       {PendingStatus(Request(), "NoTargets", "no pod matches", kStatusNow),
        ActiveStatus(Request(), 1, progress, kStatusNow),
        RetryStatus(Request(), Result(2, Outcome::kBusy), kStatusNow + 1s, kStatusNow),
        FinishedStatus(Request(), Result(2, Outcome::kOk), kStatusNow),
        RefusedStatus(Request(), "Cancelled", "", kStatusNow)}) {
    EXPECT_THAT(status.conditions, SizeIs(5));
    EXPECT_THAT(status.conditions, Each(Field(&kube::Condition::reason, Not(""))));
    EXPECT_THAT(status.conditions, Each(Field(&kube::Condition::observed_generation, 3)));
    EXPECT_EQ(status.observed_generation, 3);
  }
}

TEST(RequestStatus, HasTheReportsHeadlineCutToItsLimit) {
  capture::AttemptResult result = Result(2, Outcome::kOk);
  EXPECT_EQ(FinishedStatus(Request(), result, kStatusNow).report, "");
  result.report.headline = "rank 1 holds up the other";
  const objects::RequestStatus status = FinishedStatus(Request(), result, kStatusNow);
  EXPECT_EQ(status.report, "rank 1 holds up the other");
  objects::RequestStatus other = status;
  other.report = "";
  EXPECT_FALSE(SameStatus(status, other));
  result.report.headline = std::string(5000, 'x');
  EXPECT_EQ(FinishedStatus(Request(), result, kStatusNow).report.size(), 512u);
}

// Regression: bytesPerDay knew only those of the last attempt, and each attempt has a run of its
// own.
TEST(RequestStatus, SumsTheBytesOfAllAttempts) {
  objects::ProfileRequest request = Request();
  capture::AttemptResult result = Result(2, Outcome::kBusy);
  result.armed = 2;
  result.bytes = 100;
  request.status = RetryStatus(request, result, kStatusNow + 1s, kStatusNow);
  request.status = RetryStatus(request, result, kStatusNow + 1s, kStatusNow);
  EXPECT_EQ(request.status.bytes, 100u) << "the same attempt counts once";
  request.status = ActiveStatus(request, 2, {}, kStatusNow);
  EXPECT_EQ(request.status.bytes, 100u);
  result.attempt = 2;
  result.bytes = 20;
  EXPECT_EQ(FinishedStatus(request, result, kStatusNow).bytes, 120u);
}

TEST(RequestStatus, SumsWhatAllAttemptsRecorded) {
  objects::ProfileRequest request = Request();
  request.capture.duration = 2s;
  capture::AttemptResult result = Result(2, Outcome::kBusy);
  result.armed = 0;
  request.status = RetryStatus(request, result, kStatusNow + 1s, kStatusNow);
  EXPECT_EQ(request.status.recorded, 0s) << "no worker was to record";
  result.attempt = 2;
  result.armed = 2;
  request.status = RetryStatus(request, result, kStatusNow + 1s, kStatusNow);
  EXPECT_EQ(request.status.recorded, 2s);
  // The answer to the write was lost, and the same end is told once more.
  EXPECT_EQ(RetryStatus(request, result, kStatusNow + 1s, kStatusNow).recorded, 2s);
  request.status = ActiveStatus(request, 3, {}, kStatusNow);
  EXPECT_EQ(request.status.recorded, 2s);
  result.attempt = 3;
  result.duration = 700ms;
  const objects::RequestStatus finished = FinishedStatus(request, result, kStatusNow);
  EXPECT_EQ(finished.recorded, 2700ms);
  EXPECT_FALSE(SameStatus(request.status, finished));
  request.status = finished;
  EXPECT_EQ(FinishedStatus(request, result, kStatusNow).recorded, 2700ms);
  // Regression: dutyCycle did not count what captures look back.
  result.attempt = 4;
  request.capture.look_back = 30s;
  EXPECT_EQ(FinishedStatus(request, result, kStatusNow).recorded, 33400ms);
}

TEST(RequestStatus, TransitionTimeMovesOnlyWithTheStatus) {
  objects::ProfileRequest request = Request();
  capture::AttemptProgress progress;
  request.status = ActiveStatus(request, 1, progress, kStatusNow);
  progress.phase = capture::Phase::kRecording;
  progress.armed = 1;
  const objects::RequestStatus later = ActiveStatus(request, 1, progress, kStatusNow + 10s);
  EXPECT_EQ(objects::FindCondition(later, "Succeeded")->since, kStatusNow)
      << "Unknown before and after";
  EXPECT_EQ(objects::FindCondition(later, "Succeeded")->reason, "Recording");
  EXPECT_EQ(objects::FindCondition(later, "Started")->since, kStatusNow + 10s);
}

// Regression: for as long as a takeover waited for a worker, the capture looked as if it had not
// started.
TEST(RequestStatus, ACaptureThatRecordsStaysStartedWhileItIsTakenOver) {
  const capture::AttemptProgress progress{.armed = 1,
                                          .plan = capture::StartPlan{.instant = kStatusNow + 1s}};
  EXPECT_EQ(
      objects::FindCondition(ActiveStatus(Request(), 1, progress, kStatusNow), "Started")->status,
      kube::ConditionStatus::kUnknown)
      << "it may still be called off";
  const objects::RequestStatus later = ActiveStatus(Request(), 1, progress, kStatusNow + 1s);
  EXPECT_EQ(objects::FindCondition(later, "Started")->status, kube::ConditionStatus::kTrue);
  EXPECT_EQ(later.start_time, kStatusNow + 1s);
}

TEST(RequestStatus, UnfinishedIsUnknownAndFinishedIsNot) {
  EXPECT_FALSE(objects::IsFinished({}));
  EXPECT_FALSE(objects::IsFinished(ActiveStatus(Request(), 1, {}, kStatusNow)));
  EXPECT_FALSE(objects::IsFinished(
      RetryStatus(Request(), Result(1, Outcome::kBusy), kStatusNow, kStatusNow)));
  EXPECT_TRUE(objects::IsFinished(FinishedStatus(Request(), Result(1, Outcome::kOk), kStatusNow)));
  EXPECT_TRUE(objects::IsFinished(RefusedStatus(Request(), "NoTargets", "", kStatusNow)));
}

TEST(RequestStatus, SuccessAndFailureAreOpposites) {
  const objects::RequestStatus good =
      FinishedStatus(Request(), Result(3, Outcome::kOk), kStatusNow);
  EXPECT_EQ(objects::FindCondition(good, "Succeeded")->status, kube::ConditionStatus::kTrue);
  EXPECT_EQ(objects::FindCondition(good, "Failed")->status, kube::ConditionStatus::kFalse);
  EXPECT_EQ(good.run, "file:///logs/plugins/profile/");
  const objects::RequestStatus bad =
      FinishedStatus(Request(), Result(3, Outcome::kUploadDenied), kStatusNow);
  EXPECT_EQ(objects::FindCondition(bad, "Succeeded")->reason, "UploadDenied");
  EXPECT_EQ(objects::FindCondition(bad, "Failed")->status, kube::ConditionStatus::kTrue);
  EXPECT_EQ(bad.outcomes.at(0).cause, "UploadDenied");
}

TEST(RequestStatus, CountsTheWorkersOfEachCauseWorstFirst) {
  capture::AttemptResult result = Result(40, Outcome::kOk);
  for (std::size_t i = 0; i < 30; ++i) result.workers[i].outcome = Outcome::kLateStart;
  result.workers[35].outcome = Outcome::kWorkerLost;
  const objects::RequestStatus status = FinishedStatus(Request(), result, kStatusNow);
  ASSERT_THAT(status.causes, SizeIs(2));
  EXPECT_EQ(status.causes[0].cause, "WorkerLost");
  EXPECT_EQ(status.causes[0].workers, 1u);
  EXPECT_EQ(status.causes[1].cause, "LateStart");
  EXPECT_EQ(status.causes[1].workers, 30u) << "also those that status.outcomes has no room for";
  objects::RequestStatus other = status;
  other.causes[1].workers = 29;
  EXPECT_FALSE(SameStatus(status, other));
}

TEST(RequestStatus, ListsANameOnce) {
  capture::AttemptResult result = Result(2, Outcome::kOk);
  result.workers[1].target.name = result.workers[0].target.name;
  result.workers[0].outcome = Outcome::kLateStart;
  result.workers[1].outcome = Outcome::kWorkerLost;
  const objects::RequestStatus status = FinishedStatus(Request(), result, kStatusNow);
  ASSERT_THAT(status.outcomes, SizeIs(1));
  EXPECT_EQ(status.outcomes[0].cause, "WorkerLost");
  EXPECT_THAT(status.causes, SizeIs(2));
}

TEST(RequestStatus, StaysSmallWithSixteenThousandBadWorkers) {
  capture::AttemptResult result = Result(16'000, Outcome::kOk);
  for (capture::WorkerResult& worker : result.workers) {
    worker.outcome = Outcome::kProfilerStartFailed;
    worker.message = std::string(2000, 'm');
  }
  const objects::RequestStatus status = FinishedStatus(Request(), result, kStatusNow);
  EXPECT_THAT(status.outcomes, SizeIs(testing::AllOf(testing::Ge(8), testing::Lt(16))));
  std::size_t size = 0;
  for (const objects::StatusOutcome& outcome : status.outcomes)
    size += outcome.pod.size() + outcome.message.size() + 100;
  EXPECT_LT(size, 5000u);
}

TEST(RequestStatus, NamesTheClockThatDiffersMost) {
  capture::AttemptResult result = Result(3, Outcome::kOk);
  result.workers[1].offset = -11560ms;
  const objects::RequestStatus status = FinishedStatus(Request(), result, kStatusNow);
  EXPECT_THAT(status.clock_pod, HasSubstr("pod-1"));
  EXPECT_EQ(status.clock_offset, "-11.6s");
  EXPECT_EQ(status.clock_error, "20us");
}

TEST(RequestStatus, EqualInputsNeedNoWrite) {
  objects::ProfileRequest request = Request();
  request.status = ActiveStatus(request, 1, {}, kStatusNow);
  EXPECT_TRUE(SameStatus(request.status, ActiveStatus(request, 1, {}, kStatusNow + 1min)));
  EXPECT_FALSE(SameStatus(request.status, ActiveStatus(request, 2, {}, kStatusNow)));
}

TEST(RequestStatus, IsCutBetweenCharacters) {
  std::string euros = "x";
  for (int i = 0; i < 1000; ++i) euros += "\u20ac";
  const objects::RequestStatus status =
      RefusedStatus(objects::ProfileRequest{}, "Reason", euros, WallTime{});
  const std::string& message = objects::FindCondition(status, "Succeeded")->message;
  EXPECT_EQ(message.size(), 1u + 341 * 3) << "whole characters, at most 1024 bytes";
}

capture::StallReport Stalled(const std::string& kind) {
  capture::StallReport report;
  report.kind = kind;
  report.confidence = "Firm";
  report.text = "rank 2 holds up 3 others: it \x1b[1m sleeps\nFirm: stacks of 4.\n";
  report.stacks = "rank 2 (1 of 4)\n  a.py:1 in f\n";
  report.culprits = {{.rank = 2, .pod = "llm-2", .node = "n", .line = "a.py:1 in f"},
                     {.rank = 2, .pod = "llm-2"}};
  return report;
}

TEST(RequestStatus, AVerdictIsAConditionFromTheMomentItIsKnown) {
  objects::ProfileRequest request = Request();
  request.capture.collects_evidence = true;
  capture::AttemptProgress progress;
  objects::RequestStatus status = ActiveStatus(request, 1, progress, kStatusNow);
  EXPECT_EQ(objects::FindCondition(status, "Stalled")->status, kube::ConditionStatus::kUnknown);
  EXPECT_EQ(objects::FindCondition(status, "Succeeded")->reason, "ReadingEvidence");
  progress.phase = capture::Phase::kPublishing;
  progress.stall = std::make_shared<const capture::StallReport>(Stalled("Host"));
  status = ActiveStatus(request, 1, progress, kStatusNow);
  const kube::Condition& stalled = *objects::FindCondition(status, "Stalled");
  EXPECT_EQ(stalled.status, kube::ConditionStatus::kTrue);
  EXPECT_EQ(stalled.reason, "Host");
  EXPECT_EQ(stalled.message, "rank 2 holds up 3 others: it  [1m sleeps");
  EXPECT_EQ(status.stall.verdict, stalled.message);
  EXPECT_EQ(status.stall.details, std::vector<std::string>{"Firm: stacks of 4."});
  EXPECT_THAT(status.stall.stacks, SizeIs(2));
  ASSERT_THAT(status.stall.culprits, SizeIs(1)) << "the API server refuses a key twice";
  EXPECT_EQ(status.stall.culprits[0].node, "n");

  capture::AttemptResult result;
  result.stall = Stalled("OtherBranch");
  result.stall.not_kept = "a: the bucket refuses";
  request.status = FinishedStatus(request, result, kStatusNow);
  EXPECT_EQ(objects::FindCondition(request.status, "Stalled")->reason, "OtherBranch");
  EXPECT_EQ(objects::FindCondition(request.status, "Started")->reason, "EvidenceOnly");
  EXPECT_THAT(objects::FindCondition(request.status, "Succeeded")->message,
              HasSubstr("evidence could not be written: a: the bucket refuses"));
  const objects::RequestStatus withdrawn =
      WithdrawnStatus(request, kube::kStallWithdrawn, "the job moves", kStatusNow + 5s);
  EXPECT_EQ(objects::FindCondition(withdrawn, "Stalled")->status, kube::ConditionStatus::kFalse);
  EXPECT_EQ(objects::FindCondition(withdrawn, "Stalled")->since, kStatusNow + 5s);
  EXPECT_EQ(withdrawn.stall.kind, "OtherBranch") << "what was said stays";
}

TEST(RequestStatus, AJobThatMovesIsNotStalledAndOfAnUnknownOneThatIsUnknown) {
  objects::ProfileRequest request = Request();
  request.capture.collects_evidence = true;
  capture::AttemptResult result;
  result.stall = Stalled("Progressing");
  EXPECT_EQ(objects::FindCondition(FinishedStatus(request, result, kStatusNow), "Stalled")->status,
            kube::ConditionStatus::kFalse);
  result.stall = Stalled("Unknown");
  EXPECT_EQ(objects::FindCondition(FinishedStatus(request, result, kStatusNow), "Stalled")->status,
            kube::ConditionStatus::kUnknown);
}

TEST(RequestStatus, StacksOfAnySizeLeaveTheStatusSmall) {
  objects::ProfileRequest request = Request();
  request.capture.collects_evidence = true;
  capture::AttemptResult result;
  result.stall = Stalled("Host");
  result.stall.stacks.clear();
  for (int i = 0; i < 1000; ++i) result.stall.stacks += std::string(2000, 's') + "\n";
  result.stall.text = std::string(100'000, 't');
  const objects::RequestStatus status = FinishedStatus(request, result, kStatusNow);
  std::size_t bytes = status.stall.verdict.size();
  for (const std::string& line : status.stall.stacks) bytes += line.size();
  for (const std::string& line : status.stall.details) bytes += line.size();
  EXPECT_LT(bytes, 10'000u);
  EXPECT_EQ(status.stall.stacks.back(), "...");
}

}  // namespace
}  // namespace strobe::request
