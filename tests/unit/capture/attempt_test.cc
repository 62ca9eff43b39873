#include "capture/attempt.h"

#include <gmock/gmock.h>

#include "capture/attempt_result.h"
#include "tests/fakes/fake_worker.h"

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class CaptureAttemptTest : public testing::Test {
 protected:
  CaptureAttemptTest() {
    spec_.uid = "uid";
    spec_.logdir = "/logs";
    spec_.run = "run";
    spec_.duration = 1s;
  }

  std::shared_ptr<Attempt> Start(std::vector<std::string> names, int attempt = 1) {
    std::vector<Target> targets;
    for (const std::string& name : names) {
      Target target;
      target.name = target.pod = target.file = name;
      target.address = name + ":9470";
      targets.push_back(target);
    }
    return Attempt::Start({time_, time_, fleet_, asks_for_evidence_, reporter_}, spec_, attempt,
                          std::move(targets), [this] { ++changes_; });
  }
  AttemptResult Run(std::vector<std::string> names) {
    const auto attempt = Start(std::move(names));
    time_.Advance(200s);
    EXPECT_EQ(attempt->progress().phase, Phase::kDone);
    return *attempt->progress().result;
  }

  SimulatedTime time_;
  FakeFleet fleet_{time_};
  Spec spec_;
  bool asks_for_evidence_ = false;
  Reporter* reporter_ = nullptr;
  int changes_ = 0;
};

// Keeps the orders, and fulfils them at once if it is told to.
class FakeReporter final : public Reporter {
 public:
  void Make(ReportOrder order, std::function<void(JobReport)> done) override {
    orders.push_back(std::move(order));
    if (answers) done({.headline = "rank 1 holds up the other", .json = "{\"format\":1}"});
    kept.push_back(std::move(done));
  }

  bool answers = true;
  std::vector<ReportOrder> orders{};
  std::vector<std::function<void(JobReport)>> kept{};
};

TEST_F(CaptureAttemptTest, TheReportIsWrittenWithTheManifest) {
  FakeReporter reporter;
  reporter_ = &reporter;
  fleet_["b"].clock_error = 70us;
  fleet_["c"].dies = true;
  spec_.min_workers = 2;
  const AttemptResult result = Run({"a", "b", "c"});
  EXPECT_TRUE(result.succeeded) << result.message;
  EXPECT_EQ(result.report.headline, "rank 1 holds up the other");
  ASSERT_THAT(reporter.orders, SizeIs(1));
  const ReportOrder& order = reporter.orders[0];
  EXPECT_EQ(order.capture_id, result.capture_id);
  ASSERT_THAT(order.workers, SizeIs(3));
  EXPECT_EQ(order.workers[1].name, "b");
  EXPECT_EQ(order.workers[1].trace, "b");
  EXPECT_EQ(order.workers[1].error, 70us);
  EXPECT_NE(order.workers[1].sidecar, nullptr);
  EXPECT_EQ(order.workers[2].sidecar, nullptr);
  EXPECT_THAT(order.workers[2].missing, HasSubstr("WorkerLost"));
  FakeSidecar& writer = fleet_["a"].published.empty() ? fleet_["b"] : fleet_["a"];
  ASSERT_THAT(writer.published, SizeIs(1));
  EXPECT_EQ(writer.published[0].report(), "{\"format\":1}");
  EXPECT_THAT(writer.published[0].manifest(), HasSubstr(result.capture_id));
}

TEST_F(CaptureAttemptTest, AReportThatIsNotMadeCostsOnlyItself) {
  FakeReporter reporter{};
  reporter.answers = false;
  reporter_ = &reporter;
  const AttemptResult result = Run({"a", "b"});
  EXPECT_TRUE(result.succeeded) << result.message;
  EXPECT_EQ(result.report.headline, "not decidable: the report was not made in time");
  const std::size_t published = fleet_["a"].published.size() + fleet_["b"].published.size();
  EXPECT_EQ(published, 1u);
  reporter.kept[0]({.headline = "too late"});
  time_.Advance(1s);
  EXPECT_EQ(fleet_["a"].published.size() + fleet_["b"].published.size(), published);
}

TEST_F(CaptureAttemptTest, ACaptureThatEndsWithoutTracesOrIsCancelledHasNoReport) {
  FakeReporter reporter{};
  reporter_ = &reporter;
  fleet_["a"].ends_as = v1::UPLOAD_FAILED;
  EXPECT_EQ(Run({"a"}).report.headline, "");
  fleet_["b"].collect = 30s;
  const auto attempt = Start({"b"});
  time_.Advance(4s);
  attempt->Cancel("enough");
  time_.Advance(100s);
  ASSERT_EQ(attempt->progress().phase, Phase::kDone);
  EXPECT_THAT(reporter.orders, IsEmpty());
}

TEST_F(CaptureAttemptTest, RecordsAllWorkersAndPublishesTheManifestOnce) {
  const AttemptResult result = Run({"a", "b"});
  EXPECT_TRUE(result.succeeded) << result.message;
  EXPECT_EQ(result.ok, 2u);
  EXPECT_TRUE(result.synchronized) << result.sync_message;
  EXPECT_EQ(result.skew->achieved, 0us);
  EXPECT_EQ(fleet_["a"].published.size() + fleet_["b"].published.size(), 1u);
}

// Too few of one role are a reason not to record the others, however many these are.
TEST_F(CaptureAttemptTest, PreflightIsOverAllTargets) {
  spec_.roles = {{"prefill", 1}, {"decode", 1}};
  spec_.min_workers = 2;
  const auto start = [this] {
    std::vector<Target> targets;
    for (const char* name : {"prefill-0", "prefill-1", "decode-0"}) {
      Target target;
      target.name = target.pod = name;
      target.role = target.name.substr(0, target.name.find('-'));
      target.file = target.role + "." + target.name;
      target.address = target.name + ":9470";
      targets.push_back(target);
    }
    const auto attempt =
        Attempt::Start({time_, time_, fleet_, false, nullptr}, spec_, 1, std::move(targets), [] {});
    time_.Advance(200s);
    return *attempt->progress().result;
  };
  const AttemptResult both = start();
  EXPECT_TRUE(both.succeeded) << both.message;
  EXPECT_EQ(both.skew->achieved, 0us) << "one instant for both";
  EXPECT_THAT(both.workers, SizeIs(3));
  fleet_["decode-0"].holder = "another";
  spec_.uid = "other";
  EXPECT_THAT(start().message,
              HasSubstr("decode: 0 of 1 pods Ok, at least 1 wanted; decode-0: Busy"));
  EXPECT_THAT(fleet_["prefill-0"].plans, SizeIs(1)) << "it was not armed again";
}

TEST_F(CaptureAttemptTest, EmptyTracesAreDeletedIfAnotherAttemptFollows) {
  spec_.attempts = 2;
  for (const char* name : {"a", "b"}) {
    fleet_[name].ends_as = v1::NO_HOST_EVENTS;
    fleet_[name].events = 0;
  }
  const AttemptResult result = Run({"a", "b"});
  EXPECT_EQ(result.bytes, 0u);
  ASSERT_EQ(fleet_["a"].reclaimed.size() + fleet_["b"].reclaimed.size(), 1u);
  const v1::ReclaimRequest& asked =
      (fleet_["a"].reclaimed.empty() ? fleet_["b"] : fleet_["a"]).reclaimed[0];
  EXPECT_EQ(asked.run(), "run");
  EXPECT_EQ(asked.capture_id(), result.capture_id);
  EXPECT_THAT(fleet_["a"].published, IsEmpty());
  // The last attempt's run stays, so that the user can see what was recorded.
  const auto last = Start({"a", "b"}, 2);
  time_.Advance(200s);
  EXPECT_EQ(fleet_["a"].published.size() + fleet_["b"].published.size(), 1u);
  EXPECT_EQ(fleet_["a"].reclaimed.size() + fleet_["b"].reclaimed.size(), 1u);
}

TEST_F(CaptureAttemptTest, OneEventIsWorthKeeping) {
  spec_.attempts = 2;
  fleet_["a"].ends_as = v1::NO_HOST_EVENTS;
  fleet_["a"].events = 0;
  fleet_["b"].ends_as = v1::NO_DEVICE_ACTIVITY;
  Run({"a", "b"});
  EXPECT_EQ(fleet_["a"].published.size() + fleet_["b"].published.size(), 1u);
}

TEST_F(CaptureAttemptTest, TheRunIsTheOneThatTheWorkersWroteInto) {
  for (const char* name : {"a", "b", "c"}) fleet_[name].writes_into = "run_2";
  fleet_["c"].writes_into = "elsewhere";
  const AttemptResult result = Run({"a", "b", "c"});
  EXPECT_EQ(result.run, "run_2");
  for (const char* name : {"a", "b", "c"}) {
    for (const v1::PublishRequest& publish : fleet_[name].published) {
      EXPECT_EQ(publish.run(), "run_2");
      EXPECT_THAT(publish.manifest(), HasSubstr("run_2"));
    }
  }
}

TEST_F(CaptureAttemptTest, WritesTheInstantOnEachWorkersOwnClock) {
  fleet_["b"].offset = 11560ms;
  const AttemptResult result = Run({"a", "b"});
  const std::int64_t a = fleet_["a"].plans.at(0).instant_ns(),
                     b = fleet_["b"].plans.at(0).instant_ns();
  EXPECT_EQ(Nanos{b - a}, 11560ms);
  EXPECT_TRUE(result.synchronized);
  EXPECT_EQ(result.skew->achieved, 0us) << "the offset is taken out again";
  EXPECT_EQ(result.skew->error, 100us);
}

TEST_F(CaptureAttemptTest, AClockThatDriftsIsMeasuredAgain) {
  spec_.delay = 9s;
  fleet_["b"].drift = 500us;
  const AttemptResult result = Run({"a", "b"});
  // It was measured about 9.5 of 10.5 s before the second time.
  const Nanos offset = result.workers[1].offset;
  EXPECT_GT(offset, 400us);
  EXPECT_LE(offset, 500us);
  // It may have been slewed at any time between the measurements.
  EXPECT_LT(result.workers[1].error, 510us);
  EXPECT_EQ(result.skew->achieved, offset) << "it began so much earlier";
  EXPECT_EQ(result.skew->error, *result.workers[1].error + 50us);
}

// Regression: with 2,000 workers, starts were late by the error of their clocks.
TEST_F(CaptureAttemptTest, AClockThatWasMeasuredBadlyInACrowdIsMeasuredOnceMore) {
  std::vector<std::string> names;
  for (int i = 0; i < 33; ++i) names.push_back("w" + std::to_string(i));
  for (const std::string& name : names) fleet_[name].offset = 7s;
  fleet_["w5"].blur = 40ms;
  const AttemptResult result = Run(names);
  const v1::CapturePlan& plan = fleet_["w5"].plans.at(0);
  EXPECT_EQ(plan.instant_ns(), fleet_["w0"].plans.at(0).instant_ns());
  EXPECT_EQ(Nanos{plan.clock_error_ns()}, 50us);
  EXPECT_EQ(fleet_["w5"].checks, 1);
  EXPECT_EQ(result.skew->error, 100us);
}

TEST_F(CaptureAttemptTest, AClockThatCannotBeMeasuredAgainMayHaveBeenSlewed) {
  spec_.delay = 9s;
  fleet_["b"].measures_again = false;
  const AttemptResult result = Run({"a", "b"});
  EXPECT_TRUE(result.succeeded);
  EXPECT_EQ(result.workers[0].error, 50us);
  EXPECT_EQ(result.workers[1].offset, 0us);
  EXPECT_GT(result.workers[1].error, Nanos(9s) * 83'333 / 1'000'000);
  EXPECT_THAT(result.sync_message,
              testing::HasSubstr("the clock of b was not measured after the recording"));
  const v1::Manifest manifest = ComposeManifest(spec_, result);
  EXPECT_EQ(manifest.workers(0).notes_size(), 0);
  ASSERT_EQ(manifest.workers(1).notes_size(), 1);
  EXPECT_THAT(manifest.workers(1).notes(0), testing::HasSubstr("was not measured after"));
}

TEST_F(CaptureAttemptTest, ACancelledCaptureDoesNotWaitForClocks) {
  const auto attempt = Start({"a", "b"});
  time_.Advance(200ms);
  attempt->Cancel("enough");
  time_.Advance(10ms);
  EXPECT_EQ(attempt->progress().phase, Phase::kDone);
}

TEST_F(CaptureAttemptTest, SkewIsWhatIsLeftAfterCorrection) {
  fleet_["a"].lateness = 100us;
  fleet_["b"].lateness = 350us;
  EXPECT_EQ(Run({"a", "b"}).skew->achieved, 250us);
}

TEST_F(CaptureAttemptTest, ArmsNobodyWhenTooFewAreReady) {
  fleet_["b"].source_ready = false;
  const AttemptResult result = Run({"a", "b"});
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(result.reason, "NoSource");
  EXPECT_THAT(fleet_["a"].plans, IsEmpty());
}

TEST_F(CaptureAttemptTest, WaitsForAProfilerServerThatIsStartedLate) {
  spec_.ready_timeout = 30s;
  fleet_["b"].source_ready = false;
  const auto attempt = Start({"a", "b"});
  time_.Advance(5s);
  EXPECT_EQ(attempt->progress().phase, Phase::kPreflight);
  EXPECT_EQ(attempt->progress().waits_for,
            "waits for 1 of 2 workers; b: NoSource: profiler server at localhost:9012: nothing "
            "is listening");
  fleet_["b"].source_ready = true;
  time_.Advance(20s);
  EXPECT_EQ(attempt->progress().phase, Phase::kDone);
  EXPECT_TRUE(attempt->progress().result->succeeded) << attempt->progress().result->message;
}

TEST_F(CaptureAttemptTest, WaitsForTheCaptureThatHoldsAWorker) {
  spec_.ready_timeout = 30s;
  fleet_["a"].holder = "other";
  const auto attempt = Start({"a"});
  time_.Advance(10s);
  fleet_["a"].holder.clear();
  time_.Advance(10s);
  EXPECT_TRUE(attempt->progress().result->succeeded);
}

TEST_F(CaptureAttemptTest, GivesUpWaitingWithTheReason) {
  spec_.ready_timeout = 30s;
  fleet_["b"].source_ready = false;
  const auto attempt = Start({"a", "b"});
  time_.Advance(29s);
  EXPECT_EQ(attempt->progress().phase, Phase::kPreflight);
  time_.Advance(3s);
  ASSERT_EQ(attempt->progress().phase, Phase::kDone);
  EXPECT_EQ(attempt->progress().result->reason, "NoSource");
}

TEST_F(CaptureAttemptTest, DoesNotWaitForWhatWaitingCannotCure) {
  spec_.ready_timeout = 30s;
  fleet_["b"].protocol = 99;
  const auto attempt = Start({"a", "b"});
  time_.Advance(1s);
  EXPECT_EQ(attempt->progress().result->reason, "VersionMismatch");
}

TEST_F(CaptureAttemptTest, AWaitIsCancelledAtOnce) {
  spec_.ready_timeout = 1h;
  fleet_["b"].source_ready = false;
  const auto attempt = Start({"a", "b"});
  time_.Advance(5s);
  attempt->Cancel("enough");
  time_.Advance(1s);
  EXPECT_TRUE(attempt->progress().result->cancelled);
}

TEST_F(CaptureAttemptTest, ClocksAreMeasuredAgainAfterAWait) {
  spec_.ready_timeout = 1min;
  fleet_["b"].source_ready = false;
  const auto attempt = Start({"a", "b"});
  time_.Advance(20s);
  fleet_["a"].offset = 5ms;  // It has drifted meanwhile.
  fleet_["b"].source_ready = true;
  time_.Advance(20s);
  EXPECT_EQ(fleet_["a"].plans.at(0).instant_ns() - fleet_["b"].plans.at(0).instant_ns(),
            Nanos(5ms).count());
}

// Regression: clocks were measured again and again until readyTimeout, because each time the slow
// worker's answer made the others' measurements old.
TEST_F(CaptureAttemptTest, ASlowAnswerAfterAWaitDoesNotDelayTheStartForEver) {
  spec_.ready_timeout = 10min;
  fleet_["b"].source_ready = false;
  fleet_["c"].check_takes = 3s;
  const auto attempt = Start({"a", "b", "c"});
  time_.Advance(20s);
  fleet_["b"].source_ready = true;
  time_.Advance(20s);
  EXPECT_THAT(fleet_["c"].plans, SizeIs(1));
}

// Regression: when a job of 512 pods ended right after its capture, publishing took 2.8 hours,
// because the workers were asked one after the other.
TEST_F(CaptureAttemptTest, WhereNobodyPublishesTheCaptureEndsAllTheSame) {
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) {
    names.push_back("w" + std::to_string(i));
    fleet_[names.back()].publish_takes = 20s;
    fleet_[names.back()].publish = absl::DeadlineExceededError("nobody answers");
  }
  const AttemptResult result = Run(names);
  EXPECT_TRUE(result.succeeded);
  EXPECT_THAT(result.manifest_error, HasSubstr("nobody answers"));
}

// The clock is set between two clock measurements, and again after the plan was made.
TEST_F(CaptureAttemptTest, WhoeverSetsTheOperatorsClockMovesNoStart) {
  const auto set_clock = [this](Nanos by) {
    time_.StepWall(by);
    fleet_["a"].offset -= by;
    fleet_["b"].offset -= by;
  };
  spec_.ready_timeout = 1min;
  spec_.delay = 30s;
  fleet_["b"].source_ready = false;
  const auto attempt = Start({"a", "b"});
  time_.Advance(1s);
  set_clock(1h);
  fleet_["b"].source_ready = true;
  time_.Advance(3s);
  const WallTime armed = time_.WallNow();
  set_clock(-2h);
  time_.Advance(200s);
  ASSERT_EQ(fleet_["a"].plans.size(), 1u);
  const v1::CapturePlan &a = fleet_["a"].plans[0], &b = fleet_["b"].plans[0];
  EXPECT_EQ(a.instant_ns(), b.instant_ns()) << "the workers' clocks agree all the time";
  EXPECT_NEAR(static_cast<double>((FromUnixNanos(a.instant_ns()) + 1h - armed).count()), 30e9, 4e9);
  const AttemptResult& result = *attempt->progress().result;
  EXPECT_TRUE(result.succeeded) << result.message;
  EXPECT_EQ(result.skew->achieved, 0us);
}

TEST_F(CaptureAttemptTest, EvidenceJoinsTheMessagesOfThoseWhoFailed) {
  asks_for_evidence_ = true;
  fleet_["b"].dies = true;
  const auto attempt = Start({"a", "b"});
  for (int i = 0; i < 300 && !attempt->progress().wants_evidence; ++i) time_.Advance(100ms);
  ASSERT_TRUE(attempt->progress().wants_evidence);
  attempt->TellEvidence({{"a", "not asked"}, {"b", "container trainer was OOMKilled"}});
  time_.Advance(1s);
  const AttemptResult& result = *attempt->progress().result;
  EXPECT_THAT(result.workers[1].message, testing::StartsWith("container trainer was OOMKilled; "));
  EXPECT_EQ(result.workers[0].message, "");
  EXPECT_THAT(fleet_["a"].published.at(0).manifest(), HasSubstr("OOMKilled"));
}

TEST_F(CaptureAttemptTest, GoesOnWhenNobodyHasEvidence) {
  asks_for_evidence_ = true;
  fleet_["b"].dies = true;
  const auto attempt = Start({"a", "b"});
  time_.Advance(200s);
  EXPECT_EQ(attempt->progress().phase, Phase::kDone);
}

TEST_F(CaptureAttemptTest, GoesOnWithoutWorkersThatMinWorkersAllowsToMiss) {
  spec_.min_workers = 1;
  fleet_["b"].check = absl::UnavailableError("connection refused");
  const AttemptResult result = Run({"a", "b"});
  EXPECT_TRUE(result.succeeded);
  EXPECT_EQ(result.reason, "EnoughWorkersOk");
  EXPECT_EQ(result.workers[1].outcome, Outcome::kUnreachable);
  EXPECT_FALSE(result.synchronized) << "a worker that is missing covers nothing";
}

// Regression: the others had only 50 ms to answer, because calling off would not have reached the
// worker that did not take part.
TEST_F(CaptureAttemptTest, AWorkerThatTakesNoPartDoesNotShortenTheTimeToArm) {
  spec_.min_workers = 1;
  fleet_["a"].arm_answers = false;
  fleet_["b"].holder = "other";
  fleet_["b"].clock_error = 1s;
  const auto attempt = Start({"a", "b"});
  time_.Advance(10s);
  ASSERT_EQ(attempt->progress().phase, Phase::kDone);
  EXPECT_GE(attempt->progress().took.at(Phase::kArming), Nanos{150ms});
}

TEST_F(CaptureAttemptTest, CallsOffEverybodyWhenOneRefusesToBeArmed) {
  fleet_["b"].refusal = v1::BUSY;
  const AttemptResult result = Run({"a", "b"});
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(result.reason, "Busy");
  EXPECT_THAT(fleet_["a"].cancelled, ElementsAre("uid-1"));
  EXPECT_EQ(result.workers[0].outcome, Outcome::kCancelled);
  EXPECT_THAT(result.workers[0].message, HasSubstr("called off"));
}

TEST_F(CaptureAttemptTest, CancelsAWorkerWhoseAnswerToArmingWasLost) {
  fleet_["b"].arm_answers = false;
  const AttemptResult result = Run({"a", "b"});
  EXPECT_FALSE(result.succeeded);
  EXPECT_THAT(fleet_["b"].plans, SizeIs(1)) << "it heard us";
  EXPECT_THAT(fleet_["b"].cancelled, ElementsAre("uid-1"));
}

TEST_F(CaptureAttemptTest, KeepsTheOthersWhenOneDiesWhileItRecords) {
  fleet_["b"].dies = true;
  spec_.min_workers = 1;
  const AttemptResult result = Run({"a", "b"});
  EXPECT_TRUE(result.succeeded);
  EXPECT_EQ(result.workers[0].outcome, Outcome::kOk);
  EXPECT_EQ(result.workers[1].outcome, Outcome::kWorkerLost);
}

TEST_F(CaptureAttemptTest, AWorkerThatForgotItsCaptureIsLost) {
  fleet_["b"].forgets = true;
  EXPECT_EQ(Run({"a", "b"}).workers[1].outcome, Outcome::kWorkerLost);
}

TEST_F(CaptureAttemptTest, NothingHangsPastItsDeadline) {
  fleet_["b"].finishes = false;
  const auto attempt = Start({"a", "b"});
  time_.Advance(3min);
  EXPECT_NE(attempt->progress().phase, Phase::kDone)
      << "collecting and uploading may take three minutes";
  time_.Advance(10s);
  ASSERT_EQ(attempt->progress().phase, Phase::kDone);
  EXPECT_EQ(attempt->progress().result->workers[1].outcome, Outcome::kDeadlineExceeded);
}

TEST_F(CaptureAttemptTest, AnOperatorThatComesBackFindsItsCaptureAgain) {
  auto first = Start({"a", "b"});
  time_.Advance(400ms);
  EXPECT_EQ(first->progress().phase, Phase::kRecording);
  first.reset();  // The operator dies; the workers do not notice.
  time_.Advance(300ms);
  const auto second = Start({"a", "b"});
  time_.Advance(10s);
  ASSERT_EQ(second->progress().phase, Phase::kDone);
  EXPECT_TRUE(second->progress().result->succeeded);
  EXPECT_THAT(fleet_["a"].plans, SizeIs(1)) << "exactly one capture per attempt";
  EXPECT_THAT(fleet_["b"].plans, SizeIs(1));
}

TEST_F(CaptureAttemptTest, AnOperatorThatComesBackAfterTheEndOnlyPublishes) {
  auto first = Start({"a", "b"});
  time_.Advance(400ms);
  ASSERT_EQ(first->progress().phase, Phase::kRecording);
  first.reset();
  time_.Advance(30s);
  const AttemptResult again = Run({"a", "b"});
  EXPECT_TRUE(again.succeeded);
  EXPECT_THAT(fleet_["a"].plans, SizeIs(1));
}

// Regression: all workers were DeadlineExceeded, because their last reports were not waited for.
TEST_F(CaptureAttemptTest, AnOperatorThatComesBackAfterTheDeadlineReadsTheLastReports) {
  auto first = Start({"a", "b"});
  time_.Advance(400ms);
  ASSERT_EQ(first->progress().phase, Phase::kRecording);
  first.reset();
  time_.Advance(1h);
  const AttemptResult again = Run({"a", "b"});
  EXPECT_TRUE(again.succeeded) << again.message;
  EXPECT_THAT(fleet_["a"].plans, SizeIs(1));
  EXPECT_THAT(fleet_["a"].cancelled, IsEmpty());
}

// Regression: an operator that took over called off the recordings of all others.
TEST_F(CaptureAttemptTest, ATakeoverKeepsTheRecordingsOfTheOthersWhenAWorkerIsGone) {
  spec_.duration = 60s;
  auto first = Start({"a", "b"});
  time_.Advance(3s);
  ASSERT_EQ(first->progress().phase, Phase::kRecording);
  first.reset();
  fleet_["b"].dead = true;
  const AttemptResult result = Run({"a", "b"});
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(result.reason, "WorkerLost");
  EXPECT_EQ(result.workers[0].outcome, Outcome::kOk);
  EXPECT_THAT(fleet_["a"].cancelled, IsEmpty());
  EXPECT_EQ(result.workers[1].outcome, Outcome::kWorkerLost);
  EXPECT_THAT(result.workers[1].message, HasSubstr("connection refused"));
}

TEST_F(CaptureAttemptTest, ATakeoverWaitsForAWorkerThatCannotBeReachedAtOnce) {
  spec_.duration = 60s;
  spec_.min_workers = 1;
  auto first = Start({"a", "b"});
  time_.Advance(3s);
  first.reset();
  fleet_["b"].check = absl::UnavailableError("no route to host");
  const auto second = Start({"a", "b"});
  time_.Advance(5s);
  EXPECT_THAT(second->progress().waits_for, HasSubstr("no route to host"));
  fleet_["b"].check = absl::OkStatus();
  time_.Advance(200s);
  ASSERT_EQ(second->progress().phase, Phase::kDone);
  EXPECT_EQ(second->progress().result->reason, "AllWorkersOk");
}

// Regression: the workers went on recording, because nobody knew yet that they were armed.
TEST_F(CaptureAttemptTest, ACancelRightAfterATakeoverReachesTheWorkers) {
  spec_.duration = 60s;
  auto first = Start({"a", "b"});
  time_.Advance(3s);
  ASSERT_EQ(first->progress().phase, Phase::kRecording);
  first.reset();
  const auto second = Start({"a", "b"});
  second->Cancel("spec.cancel was set");
  time_.Advance(1s);
  ASSERT_EQ(second->progress().phase, Phase::kDone);
  EXPECT_TRUE(second->progress().result->cancelled);
  for (const char* worker : {"a", "b"})
    EXPECT_THAT(fleet_[worker].cancelled, ElementsAre("uid-1")) << worker;
}

// Regression: a worker that did not answer for a moment went on recording.
TEST_F(CaptureAttemptTest, ACancelDuringATakeoverReachesAWorkerThatDidNotAnswer) {
  spec_.duration = 60s;
  auto first = Start({"a", "b"});
  time_.Advance(3s);
  ASSERT_EQ(first->progress().phase, Phase::kRecording);
  first.reset();
  fleet_["b"].check = absl::UnavailableError("no route to host");
  const auto second = Start({"a", "b"});
  time_.Advance(5500ms);
  ASSERT_THAT(second->progress().waits_for, HasSubstr("no route to host"));
  second->Cancel("spec.cancel was set");
  time_.Advance(1s);
  ASSERT_EQ(second->progress().phase, Phase::kDone);
  EXPECT_EQ(second->progress().result->workers[1].outcome, Outcome::kUnreachable);
  for (const char* worker : {"a", "b"})
    EXPECT_THAT(fleet_[worker].cancelled, ElementsAre("uid-1")) << worker;
}

TEST_F(CaptureAttemptTest, ArmsTheRestWhenItDiedWhileArming) {
  // Only worker a was armed before the operator died.
  auto first = Start({"a"});
  time_.Advance(10ms);
  first.reset();
  const AttemptResult result = Run({"a", "b"});
  EXPECT_TRUE(result.succeeded) << result.message;
  EXPECT_EQ(fleet_["a"].plans.at(0).instant_ns(), fleet_["b"].plans.at(0).instant_ns())
      << "one instant for all";
}

TEST_F(CaptureAttemptTest, CancelDuringTheDelayEndsAllAtOnce) {
  spec_.delay = 30s;
  const auto attempt = Start({"a", "b"});
  time_.Advance(5s);
  EXPECT_EQ(attempt->progress().phase, Phase::kDelay);
  attempt->Cancel("spec.cancel was set");
  time_.Advance(100ms);
  ASSERT_EQ(attempt->progress().phase, Phase::kDone);
  EXPECT_TRUE(attempt->progress().result->cancelled);
  EXPECT_EQ(attempt->progress().result->reason, "Cancelled");
}

TEST_F(CaptureAttemptTest, EndingEarlyKeepsWhatWasRecorded) {
  spec_.duration = 600s;
  const auto attempt = Start({"a", "b"});
  time_.Advance(3s);
  ASSERT_EQ(attempt->progress().phase, Phase::kRecording);
  attempt->EndEarly();
  attempt->EndEarly();
  time_.Advance(1s);
  ASSERT_EQ(attempt->progress().phase, Phase::kDone);
  const AttemptResult& result = *attempt->progress().result;
  EXPECT_FALSE(result.cancelled);
  EXPECT_TRUE(result.succeeded) << result.message;
  EXPECT_EQ(result.duration, Nanos(1s));
  EXPECT_EQ(ComposeManifest(spec_, result).duration_ns(), Nanos(1s).count());
  for (const char* worker : {"a", "b"}) {
    EXPECT_THAT(fleet_[worker].kept, ElementsAre("uid-1"));
    EXPECT_THAT(fleet_[worker].cancelled, IsEmpty());
  }
}

// Regression: the recordings were cancelled, because nobody knew yet that there were any.
TEST_F(CaptureAttemptTest, EndingRightAfterATakeoverKeepsWhatWasRecorded) {
  spec_.duration = 600s;
  auto first = Start({"a", "b"});
  time_.Advance(3s);
  ASSERT_EQ(first->progress().phase, Phase::kRecording);
  first.reset();
  const auto second = Start({"a", "b"});
  second->EndEarly();
  time_.Advance(1s);
  ASSERT_EQ(second->progress().phase, Phase::kDone);
  EXPECT_FALSE(second->progress().result->cancelled);
  EXPECT_TRUE(second->progress().result->succeeded) << second->progress().result->message;
  for (const char* worker : {"a", "b"}) {
    EXPECT_THAT(fleet_[worker].kept, ElementsAre("uid-1"));
    EXPECT_THAT(fleet_[worker].cancelled, IsEmpty());
  }
}

TEST_F(CaptureAttemptTest, EndingWhileWorkersAreAskedCancelsOnceTheyHaveAnswered) {
  fleet_["a"].check_takes = 2s;
  const auto attempt = Start({"a"});
  attempt->EndEarly();
  time_.Advance(5s);
  ASSERT_EQ(attempt->progress().phase, Phase::kDone);
  EXPECT_TRUE(attempt->progress().result->cancelled);
  EXPECT_THAT(fleet_["a"].plans, IsEmpty());
}

TEST_F(CaptureAttemptTest, EndingBeforeItRecordsCancels) {
  spec_.delay = 30s;
  const auto attempt = Start({"a"});
  time_.Advance(5s);
  attempt->EndEarly();
  time_.Advance(1s);
  ASSERT_EQ(attempt->progress().phase, Phase::kDone);
  EXPECT_TRUE(attempt->progress().result->cancelled);
}

TEST_F(CaptureAttemptTest, CancelDuringPreflightArmsNobody) {
  const auto attempt = Start({"a"});
  attempt->Cancel("no");
  time_.Advance(10s);
  ASSERT_EQ(attempt->progress().phase, Phase::kDone);
  EXPECT_THAT(fleet_["a"].plans, IsEmpty());
}

TEST_F(CaptureAttemptTest, CancelWhileArmingWaitsForTheAnswersAndTakesThemBack) {
  const auto attempt = Start({"a", "b"});
  time_.Advance(1500us);
  ASSERT_EQ(attempt->progress().phase, Phase::kArming);
  attempt->Cancel("no");
  time_.Advance(1s);
  ASSERT_EQ(attempt->progress().phase, Phase::kDone);
  for (const char* worker : {"a", "b"}) {
    EXPECT_THAT(fleet_[worker].plans, SizeIs(1));
    EXPECT_THAT(fleet_[worker].cancelled, ElementsAre("uid-1", "uid-1"))
        << "at once, and after the answer";
  }
}

// Regression: the workers' answers came to nobody, and they recorded.
TEST_F(CaptureAttemptTest, AnAttemptThatIsDroppedWhileArmingCancelsItsWorkers) {
  auto attempt = Start({"a", "b"});
  time_.Advance(1500us);
  ASSERT_EQ(attempt->progress().phase, Phase::kArming);
  attempt->Cancel("the request was deleted");
  attempt.reset();
  time_.Advance(1s);
  for (const char* worker : {"a", "b"})
    EXPECT_THAT(fleet_[worker].cancelled, ElementsAre("uid-1")) << worker;
}

TEST_F(CaptureAttemptTest, RefusesClocksThatAreTooUncertainForMaxSkew) {
  spec_.max_skew = 1ms;
  fleet_["b"].clock_error = 5ms;
  const AttemptResult result = Run({"a", "b"});
  EXPECT_EQ(result.reason, "ClockUncertain");
  EXPECT_THAT(result.message, HasSubstr("b: its clock"));
  EXPECT_THAT(fleet_["a"].plans, IsEmpty());
}

TEST_F(CaptureAttemptTest, ALateStartIsKeptOrDiscardedAsAsked) {
  fleet_["b"].ends_as = v1::LATE_START;
  fleet_["b"].lateness = 20ms;
  AttemptResult result = Run({"a", "b"});
  EXPECT_TRUE(result.succeeded);
  EXPECT_FALSE(result.synchronized);
  spec_.uid = "other";
  spec_.on_late_start = OnLateStart::kDiscard;
  result = Run({"a", "b"});
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(result.reason, "LateStart");
}

TEST_F(CaptureAttemptTest, AsksTheNextWorkerWhenOneCannotWriteTheManifest) {
  fleet_["a"].publish = fleet_["b"].publish = absl::PermissionDeniedError("no");
  const AttemptResult result = Run({"a", "b"});
  EXPECT_TRUE(result.succeeded) << "the traces are there";
  EXPECT_THAT(result.manifest_error, HasSubstr("no"));
  spec_.uid = "other";
  fleet_["a"].publish = absl::OkStatus();
  EXPECT_THAT(Run({"a", "b"}).manifest_error, IsEmpty());
}

TEST_F(CaptureAttemptTest, RefusesASidecarOfAnotherProtocol) {
  fleet_["a"].protocol = 99;
  EXPECT_EQ(Run({"a"}).workers[0].outcome, Outcome::kVersionMismatch);
}

TEST_F(CaptureAttemptTest, GuardGrowsWithMeasuredLateness) {
  fleet_["b"].wake_lateness = 3ms;
  Run({"a", "b"});
  EXPECT_EQ(Nanos{fleet_["a"].plans.at(0).guard_ns()}, 12ms);
}

TEST_F(CaptureAttemptTest, AnExceptionEndsTheAttemptAndNotTheProcess) {
  fleet_["b"].throws_in_arm = true;
  const AttemptResult result = Run({"a", "b"});
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(result.reason, "InternalError");
  EXPECT_THAT(result.message, HasSubstr("told to throw"));
  EXPECT_THAT(result.workers, SizeIs(2));
  EXPECT_THAT(fleet_["a"].cancelled, ElementsAre("uid-1")) << "its answer was on the way";
  EXPECT_THAT(fleet_["a"].published, IsEmpty());
}

TEST_F(CaptureAttemptTest, APlanThatNobodyMadeIsNotAdopted) {
  for (const auto change : {+[](v1::CapturePlan& p) { p.set_instant_ns(p.instant_ns() * 2); },
                            +[](v1::CapturePlan& p) { p.set_duration_ns(Nanos(1h).count()); },
                            +[](v1::CapturePlan& p) { p.set_guard_ns(Nanos(1h).count()); },
                            +[](v1::CapturePlan& p) { p.set_run("other"); },
                            +[](v1::CapturePlan& p) { p.set_capture_id("other-1"); }}) {
    FakeSidecar& liar = fleet_["b"];
    v1::Report& report = liar.reports["uid-1"];
    report.set_capture_id("uid-1");
    report.set_state(v1::ARMED);
    report.mutable_plan()->set_capture_id("uid-1");
    report.mutable_plan()->set_run("run");
    report.mutable_plan()->set_instant_ns(ToUnixNanos(time_.WallNow()));
    change(*report.mutable_plan());
    const AttemptResult result = Run({"a", "b"});
    EXPECT_EQ(result.reason, "WorkerLost") << result.message;
    EXPECT_THAT(result.message, HasSubstr("claims to be recording for this"));
    fleet_["a"].reports.clear();
  }
}

TEST_F(CaptureAttemptTest, AManifestOfAnotherCaptureIsToldAndNobodyElseIsAsked) {
  fleet_["a"].publish = fleet_["b"].publish = absl::AlreadyExistsError("of capture x");
  const AttemptResult result = Run({"a", "b"});
  EXPECT_TRUE(result.succeeded);
  EXPECT_EQ(result.manifest_error, "of capture x");
}

// The operator knows which source will record only after the sidecar has described the trainer.
TEST_F(CaptureAttemptTest, ExpectsADeviceOfWhoCanRecordIt) {
  const auto expects = [this](ExpectedPlanes planes, v1::SourceKind there, v1::SourceKind asked) {
    spec_.uid += "x";
    spec_.source = asked;
    fleet_["a"].source = there;
    Target target;
    target.name = target.file = "a";
    target.planes = planes;
    const auto attempt = Attempt::Start({time_, time_, fleet_}, spec_, 1, {target}, [] {});
    time_.Advance(200s);
    return fleet_["a"].plans.back().expects_device();
  };
  const ExpectedPlanes tpu{.framework = true, .agent = false}, gpu{true, true};
  spec_.tracers.set_device(1);
  EXPECT_TRUE(expects(tpu, v1::SOURCE_FRAMEWORK, v1::SOURCE_AUTO));
  EXPECT_FALSE(expects(tpu, v1::SOURCE_AGENT, v1::SOURCE_AUTO)) << "the agent knows CUPTI alone";
  EXPECT_FALSE(expects(tpu, v1::SOURCE_FRAMEWORK, v1::SOURCE_AGENT));
  EXPECT_TRUE(expects(gpu, v1::SOURCE_AGENT, v1::SOURCE_AUTO));
  EXPECT_FALSE(expects({}, v1::SOURCE_FRAMEWORK, v1::SOURCE_AUTO));
  spec_.tracers.set_device(0);
  EXPECT_FALSE(expects(gpu, v1::SOURCE_AGENT, v1::SOURCE_AUTO));
}

TEST_F(CaptureAttemptTest, AContainerThatTheSidecarCannotTellApartIsRefused) {
  const auto run = [this](v1::SourceKind source) {
    spec_.uid += "x";
    spec_.source = source;
    Target target;
    target.name = target.file = "a";
    target.only_container = "learner";
    const auto attempt = Attempt::Start({time_, time_, fleet_}, spec_, 1, {target}, [] {});
    time_.Advance(200s);
    return *attempt->progress().result;
  };
  const AttemptResult refused = run(v1::SOURCE_AUTO);
  EXPECT_EQ(refused.reason, "SidecarMissing");
  EXPECT_THAT(refused.message, HasSubstr("cannot distinguish the programs of container learner"));
  EXPECT_THAT(fleet_["a"].plans, IsEmpty()) << "nothing of the others' may be recorded";
  fleet_["a"].containers = {"actor", "learner"};
  EXPECT_THAT(run(v1::SOURCE_FRAMEWORK).message, HasSubstr("share its ports"));
  EXPECT_TRUE(run(v1::SOURCE_AUTO).succeeded);
  EXPECT_EQ(fleet_["a"].plans.at(0).container(), "learner");
}

TEST_F(CaptureAttemptTest, AWorkerThatSendsReportsWithoutEndCostsNoMemory) {
  fleet_["b"].floods = 10'000;
  const auto attempt = Start({"a", "b"});
  time_.Advance(200s);
  const AttemptResult& result = *attempt->progress().result;
  EXPECT_TRUE(result.succeeded) << result.message;
  EXPECT_EQ(result.reports_replaced, 9'999u) << "what nobody looked at is counted";
}

TEST_F(CaptureAttemptTest, AStreamThatWasEndedForMisbehaviourEndsItsWorker) {
  fleet_["b"].floods = 64;
  fleet_["b"].watch_ends = absl::DataLossError("more than 64 reports");
  const AttemptResult result = Run({"a", "b"});
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(result.workers[1].outcome, Outcome::kWorkerLost);
  EXPECT_THAT(result.workers[1].message, HasSubstr("more than 64 reports"));
  EXPECT_THAT(fleet_["b"].cancelled, ElementsAre("uid-1"));
  EXPECT_EQ(result.workers[0].outcome, Outcome::kOk) << "the others go on";
}

class StepAttemptTest : public CaptureAttemptTest {
 protected:
  StepAttemptTest() { spec_.steps = StepsWanted{.count = 5}; }
  void Tells(const std::string& worker, std::int64_t number, Nanos period) {
    v1::StepPace& pace = fleet_[worker].steps.emplace_back();
    pace.set_loop("train");
    pace.set_number(number);
    pace.set_began_ns(ToUnixNanos(time_.WallNow() + fleet_[worker].offset));
    pace.set_period_ns(period.count());
  }
};

TEST_F(StepAttemptTest, AllWorkersGetTheSameStepsAndEachItsOwnTime) {
  fleet_["b"].offset = 7s;
  Tells("a", 100, 100ms);
  Tells("b", 100, 200ms);
  const WallTime began = time_.WallNow();
  const AttemptResult result = Run({"a", "b"});
  EXPECT_TRUE(result.succeeded) << result.message;
  const v1::CapturePlan &a = fleet_["a"].plans.at(0), &b = fleet_["b"].plans.at(0);
  EXPECT_EQ(a.steps(), 5u);
  EXPECT_EQ(a.step_loop(), "train");
  EXPECT_EQ(a.first_step(), b.first_step());
  const std::int64_t ahead = a.first_step() - 100;
  EXPECT_EQ(FromUnixNanos(a.instant_ns()), began + ahead * 100ms);
  EXPECT_EQ(FromUnixNanos(b.instant_ns()), began + ahead * 200ms + 7s);
  EXPECT_EQ(a.duration_ns(), Nanos(500ms).count());
  EXPECT_EQ(b.steps_by_ns() - a.steps_by_ns(), Nanos(7s).count());
  EXPECT_TRUE(result.synchronized) << result.sync_message;
  EXPECT_EQ(result.sync_reason, "AllCoverSteps");
  EXPECT_FALSE(result.skew) << "the difference is the job's own";
  EXPECT_EQ(result.steps->spread->achieved, ahead * 100ms);
}

TEST_F(StepAttemptTest, AWorkerThatWasSlowLatelyHasMoreTime) {
  Tells("a", 100, 100ms);
  fleet_["a"].steps.back().set_fastest_ns(Nanos(100ms).count());
  fleet_["a"].steps.back().set_slowest_ns(Nanos(1min).count());
  const AttemptResult result = Run({"a"});
  EXPECT_TRUE(result.succeeded) << result.message;
  const v1::CapturePlan& plan = fleet_["a"].plans.at(0);
  EXPECT_EQ(Nanos{plan.steps_by_ns() - plan.instant_ns()}, 500ms + 5min + 30s);
}

TEST_F(StepAttemptTest, AWorkerThatTellsNoStepsMakesItAWindowOfTime) {
  Tells("a", 100, 100ms);
  const AttemptResult result = Run({"a", "b"});
  EXPECT_TRUE(result.succeeded) << result.message;
  EXPECT_EQ(fleet_["a"].plans.at(0).steps(), 0u);
  EXPECT_EQ(fleet_["a"].plans.at(0).duration_ns(), Nanos(1s).count());
  EXPECT_TRUE(result.skew);
  EXPECT_THAT(result.sync_message, HasSubstr("because b reports no steps"));
}

TEST_F(StepAttemptTest, AStepThatHasPassedFailsAtOnceAndForGood) {
  spec_.steps->from = StepsWanted::From::kNumber;
  spec_.steps->number = 50;
  Tells("a", 10, 100ms);
  Tells("b", 70, 100ms);
  const AttemptResult result = Run({"a", "b"});
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(result.reason, kStepOutOfReach);
  EXPECT_EQ(result.message, "b: step 50 has passed; the worker is at step 70");
  EXPECT_THAT(fleet_["a"].plans, IsEmpty());
  EXPECT_FALSE(RetryAfter(spec_, result));
}

TEST_F(StepAttemptTest, AnOperatorThatStartsAgainFindsTheCaptureAndItsSteps) {
  Tells("a", 100, 100ms);
  Tells("b", 100, 200ms);
  auto attempt = Start({"a", "b"});
  time_.Advance(200ms);
  ASSERT_EQ(attempt->progress().phase, Phase::kDelay);
  const std::int64_t first = attempt->progress().plan->steps->first;
  attempt.reset();
  const AttemptResult result = Run({"a", "b"});
  EXPECT_TRUE(result.succeeded) << result.message;
  EXPECT_EQ(result.plan->steps->first, first);
  EXPECT_EQ(result.sync_reason, "AllCoverSteps");
  EXPECT_EQ(fleet_["a"].plans.size(), 1u);
}

TEST_F(CaptureAttemptTest, APreflightRecordsNothingAndLeavesNothing) {
  spec_.preflight_only = true;
  const AttemptResult result = Run({"a", "b"});
  EXPECT_TRUE(result.succeeded) << result.message;
  EXPECT_EQ(result.ok, 2u);
  EXPECT_EQ(result.sync_reason, "PreflightOnly");
  EXPECT_FALSE(result.plan.has_value());
  for (const char* name : {"a", "b"}) {
    EXPECT_THAT(fleet_[name].plans, IsEmpty());
    ASSERT_THAT(fleet_[name].published, SizeIs(1)) << "each writes with its own identity";
    ASSERT_THAT(fleet_[name].reclaimed, SizeIs(1));
    EXPECT_EQ(fleet_[name].reclaimed[0].run(), fleet_[name].published[0].run());
    EXPECT_EQ(fleet_[name].reclaimed[0].capture_id(), result.capture_id);
    EXPECT_THAT(fleet_[name].published[0].manifest(), HasSubstr(result.capture_id));
  }
  EXPECT_NE(fleet_["a"].published[0].run(), fleet_["b"].published[0].run());
}

TEST_F(CaptureAttemptTest, APreflightCallsNoRankALocalRankThatIsNotToldAsOne) {
  spec_.preflight_only = true;
  v1::ProcessRank rank;
  rank.set_local_rank(5);
  fleet_["a"].ranks = {rank};
  rank.set_local_rank_assumed(true);
  fleet_["b"].ranks = {rank};
  const auto attempt = Start({"a", "b"});
  time_.Advance(1s);
  ASSERT_EQ(attempt->progress().phase, Phase::kDone);
  const AttemptResult result = *attempt->progress().result;
  EXPECT_THAT(result.workers[0].sources, ElementsAre("Framework at localhost:9012, local ranks 5"));
  EXPECT_THAT(result.workers[1].sources, ElementsAre("Framework at localhost:9012, ranks 5"));
}

TEST_F(CaptureAttemptTest, APreflightTellsEachWorkersOwnCause) {
  spec_.preflight_only = true;
  spec_.ready_timeout = 30s;
  spec_.attempts = 3;
  fleet_["b"].source_ready = false;
  fleet_["c"].publish = absl::PermissionDeniedError("no");
  fleet_["d"].publish = absl::FailedPreconditionError("no such bucket");
  fleet_["e"].reclaim = absl::PermissionDeniedError("may not delete");
  const auto attempt = Start({"a", "b", "c", "d", "e"});
  time_.Advance(1s);
  ASSERT_EQ(attempt->progress().phase, Phase::kDone) << "it waits for nobody";
  const AttemptResult result = *attempt->progress().result;
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(result.reason, "UploadDenied");
  std::vector<Outcome> outcomes;
  for (const WorkerResult& worker : result.workers) outcomes.push_back(worker.outcome);
  EXPECT_THAT(outcomes, ElementsAre(Outcome::kOk, Outcome::kNoSource, Outcome::kUploadDenied,
                                    Outcome::kUploadFailed, Outcome::kOk));
  EXPECT_THAT(result.workers[2].message, HasSubstr("writing a test object to /logs: no"));
  EXPECT_THAT(result.workers[4].message, HasSubstr("could not delete the test object"));
  EXPECT_THAT(result.workers[0].sources, ElementsAre("Framework at localhost:9012"));
  EXPECT_THAT(result.workers[1].sources,
              ElementsAre("Framework at localhost:9012, not ready: nothing is listening"));
  EXPECT_EQ(RetryAfter(spec_, result), std::nullopt);
}

// Regression: it waited for worker b until the recording would have been over.
TEST_F(CaptureAttemptTest, APreflightIsNotHeldUpByASidecarThatClaimsToRecord) {
  spec_.duration = 600s;
  auto first = Start({"a"});
  time_.Advance(3s);
  ASSERT_EQ(first->progress().phase, Phase::kRecording);
  first.reset();
  spec_.preflight_only = true;
  fleet_["b"].check = absl::UnavailableError("no route to host");
  const auto preflight = Start({"a", "b"});
  time_.Advance(1s);
  ASSERT_EQ(preflight->progress().phase, Phase::kDone);
  const std::vector<WorkerResult>& workers = preflight->progress().result->workers;
  EXPECT_EQ(workers[0].outcome, Outcome::kWorkerLost);
  EXPECT_EQ(workers[1].outcome, Outcome::kUnreachable);
}

TEST_F(CaptureAttemptTest, APreflightTellsThatClocksAreTooUncertain) {
  spec_.preflight_only = true;
  spec_.max_skew = 1ms;
  fleet_["b"].clock_error = 5ms;
  const AttemptResult result = Run({"a", "b"});
  EXPECT_FALSE(result.succeeded);
  EXPECT_EQ(result.reason, "ClockUncertain");
  EXPECT_EQ(result.workers[0].outcome, Outcome::kOk);
}

TEST_F(CaptureAttemptTest, APreflightThatIsCancelledStillDeletesItsTestObject) {
  spec_.preflight_only = true;
  fleet_["a"].publish_takes = 5s;
  const auto attempt = Start({"a"});
  time_.Advance(1s);
  attempt->Cancel("enough");
  time_.Advance(10ms);
  EXPECT_NE(attempt->progress().phase, Phase::kDone) << "the object is still to be deleted";
  time_.Advance(10s);
  EXPECT_EQ(attempt->progress().phase, Phase::kDone);
  EXPECT_TRUE(attempt->progress().result->cancelled);
  EXPECT_THAT(fleet_["a"].reclaimed, SizeIs(1));
}

}  // namespace
}  // namespace strobe::capture
