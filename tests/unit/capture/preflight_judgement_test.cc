#include "capture/preflight_judgement.h"

#include <gmock/gmock.h>

#include "common/base/version.h"

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr WallTime kAskedAt{1000s};

class JudgePreflightTest : public testing::Test {
 protected:
  JudgePreflightTest() {
    target_.name = "w0";
    target_.address = "10.0.0.1:9470";
    spec_.duration = 2s;
    v1::DescribeResponse& description = answer_.description;
    description.set_protocol(kWorkerProtocol);
    AddSource(v1::SOURCE_FRAMEWORK);
  }

  v1::Source& AddSource(v1::SourceKind kind) {
    v1::Source& source = *answer_.description.add_sources();
    source.set_kind(kind);
    source.set_address("localhost:9012");
    source.set_ready(true);
    return source;
  }
  // The report of a sidecar that carries out this capture.
  v1::CapturePlan& AddReport() {
    v1::Report& report = *answer_.description.mutable_report();
    report.set_capture_id("uid-1");
    v1::CapturePlan& plan = *report.mutable_plan();
    plan.set_capture_id("uid-1");
    plan.set_run("run");
    plan.set_instant_ns(ToUnixNanos(kAskedAt + 1s));
    plan.set_duration_ns(Nanos(2s).count());
    plan.set_guard_ns(Nanos(5ms).count());
    return plan;
  }
  PreflightJudgement Judge() {
    return JudgePreflight({spec_, "uid-1", "run", kAskedAt, requested_start_}, target_, answer_);
  }

  Spec spec_;
  Target target_;
  Preflight answer_;
  std::optional<WallTime> requested_start_;
};

TEST_F(JudgePreflightTest, AWorkerWhoseSourcesAnswerIsReady) {
  EXPECT_EQ(Judge().kind, PreflightJudgement::Kind::kReady);
  EXPECT_THAT(Judge().message, IsEmpty());
}

TEST_F(JudgePreflightTest, NamesTheSourceThatIsNotReady) {
  v1::Source& source = AddSource(v1::SOURCE_FRAMEWORK);
  source.set_ready(false);
  source.set_detail("nothing is listening");
  const PreflightJudgement judgement = Judge();
  EXPECT_EQ(judgement.kind, PreflightJudgement::Kind::kUnable);
  EXPECT_EQ(judgement.outcome, Outcome::kNoSource);
  EXPECT_EQ(judgement.message, "profiler server at localhost:9012: nothing is listening");
  v1::Source& agent = AddSource(v1::SOURCE_AGENT);
  agent.set_ready(false);
  agent.set_address("/strobe/agent");
  agent.set_detail("no program with the agent runs");
  EXPECT_EQ(Judge().message,
            "profiler server at localhost:9012: nothing is listening; agent directory "
            "/strobe/agent: no program with the agent runs");
}

TEST_F(JudgePreflightTest, AServerIsReadyOnceEnoughRequestsRun) {
  answer_.description.set_running_requests(1);
  EXPECT_EQ(Judge().kind, PreflightJudgement::Kind::kReady);
  spec_.min_running_requests = 2;
  EXPECT_EQ(Judge().outcome, Outcome::kNoSource);
  EXPECT_TRUE(Describe(Judge().outcome).waitable);
  EXPECT_EQ(Judge().message,
            "NoRequests: 1 of 2 requests run or wait in its server; send load to it");
  answer_.description.set_running_requests(2);
  EXPECT_EQ(Judge().kind, PreflightJudgement::Kind::kReady);
  answer_.description.clear_running_requests();
  EXPECT_THAT(Judge().message, HasSubstr("none of its processes reports iterations"));
}

TEST_F(JudgePreflightTest, WhatEndedProgramsLeftIsEnoughToReachBack) {
  v1::Source& source = AddSource(v1::SOURCE_AGENT);
  source.set_ready(false);
  source.set_ended_programs(1);
  EXPECT_EQ(Judge().kind, PreflightJudgement::Kind::kUnable);
  spec_.look_back = 30s;
  EXPECT_EQ(Judge().kind, PreflightJudgement::Kind::kReady);
  source.set_ended_programs(0);
  EXPECT_EQ(Judge().kind, PreflightJudgement::Kind::kUnable);
}

TEST_F(JudgePreflightTest, AFailedCallTellsTheAddressAndTheCause) {
  const auto judge = [this](const absl::Status& status) {
    return JudgePreflight({spec_, "uid-1", "run", kAskedAt, std::nullopt}, target_, status);
  };
  EXPECT_EQ(judge(absl::UnavailableError("refused")).outcome, Outcome::kUnreachable);
  EXPECT_THAT(judge(absl::UnavailableError("refused")).message,
              testing::AllOf(HasSubstr("10.0.0.1:9470"), HasSubstr("refused")));
  EXPECT_EQ(judge(absl::UnimplementedError("")).outcome, Outcome::kVersionMismatch);
  EXPECT_EQ(judge(absl::InvalidArgumentError("")).outcome, Outcome::kUploadFailed);
}

TEST_F(JudgePreflightTest, AnotherProtocolIsAMismatchWhateverElseItSays) {
  AddReport();
  answer_.description.set_protocol(kWorkerProtocol + 1);
  EXPECT_EQ(Judge().outcome, Outcome::kVersionMismatch);
}

TEST_F(JudgePreflightTest, AWorkerThatAnotherCaptureHoldsIsBusy) {
  answer_.description.set_holder("other-1");
  EXPECT_EQ(Judge().outcome, Outcome::kBusy);
  EXPECT_THAT(Judge().message, HasSubstr("other-1"));
}

TEST_F(JudgePreflightTest, AdoptsTheCaptureOfAnOperatorThatWasHereBefore) {
  AddReport();
  answer_.description.set_holder("uid-1");
  EXPECT_EQ(Judge().kind, PreflightJudgement::Kind::kAdopted)
      << "it is busy with this very capture";
}

TEST_F(JudgePreflightTest, DoesNotAdoptAPlanThatNobodyCanHaveMade) {
  for (const auto change :
       {+[](v1::CapturePlan& p) { p.set_capture_id("other-1"); },
        +[](v1::CapturePlan& p) { p.set_run("other"); },
        +[](v1::CapturePlan& p) { p.set_duration_ns(Nanos(3s).count()); },
        +[](v1::CapturePlan& p) { p.set_guard_ns(Nanos(11s).count()); },
        +[](v1::CapturePlan& p) { p.set_look_back_ns(Nanos(1s).count()); },
        +[](v1::CapturePlan& p) { p.set_instant_ns(ToUnixNanos(kAskedAt + 5min + 1s)); }}) {
    change(AddReport());
    EXPECT_EQ(Judge().outcome, Outcome::kWorkerLost);
    EXPECT_THAT(Judge().message, HasSubstr("claims to be recording for this capture"));
  }
}

TEST_F(JudgePreflightTest, AnAdoptedInstantMayLieAsFarAheadAsTheRequestAsked) {
  AddReport().set_instant_ns(ToUnixNanos(kAskedAt + 1h));
  EXPECT_EQ(Judge().kind, PreflightJudgement::Kind::kUnable);
  spec_.delay = 1h;
  EXPECT_EQ(Judge().kind, PreflightJudgement::Kind::kAdopted);
  spec_.delay.reset();
  requested_start_ = kAskedAt + 1h;
  EXPECT_EQ(Judge().kind, PreflightJudgement::Kind::kAdopted);
}

TEST_F(JudgePreflightTest, TheInstantOfAPlanIsOnTheWorkersClock) {
  v1::CapturePlan& plan = AddReport();
  plan.set_clock_offset_ns(Nanos(1h).count());
  plan.set_instant_ns(ToUnixNanos(kAskedAt + 1h + 1s));
  EXPECT_EQ(Judge().kind, PreflightJudgement::Kind::kAdopted);
}

TEST_F(JudgePreflightTest, OneContainerNeedsASidecarThatCanTellItApart) {
  target_.only_container = "learner";
  EXPECT_EQ(Judge().outcome, Outcome::kSidecarMissing);
  answer_.description.add_containers("learner");
  EXPECT_EQ(Judge().kind, PreflightJudgement::Kind::kReady);
  spec_.source = v1::SOURCE_FRAMEWORK;
  EXPECT_THAT(Judge().message, HasSubstr("share its ports"));
}

TEST_F(JudgePreflightTest, AFrameworkIsASourceThatAnswers) {
  EXPECT_TRUE(HasFramework(answer_.description));
  answer_.description.mutable_sources(0)->set_ready(false);
  EXPECT_FALSE(HasFramework(answer_.description));
  AddSource(v1::SOURCE_AGENT);
  EXPECT_FALSE(HasFramework(answer_.description));
}

}  // namespace
}  // namespace strobe::capture
