#include "sidecar/capture/trace_file.h"

#include <gmock/gmock.h>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"

namespace strobe::session {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kStepZero = 1'790'000'000'000'000'000, kMs = 1'000'000;

// Steps of 10 ms with these numbers, one after the other; each process has a line.
Recording Recorded(std::initializer_list<std::int64_t> numbers, int processes = 1) {
  xplane::PlaneBuilder host(xplane::kHostPlane), environment(xplane::kTaskEnvironmentPlane);
  for (int process = 0; process < processes; ++process) {
    host.BeginLine(process + 1, "main", 0);
    for (const std::int64_t number : numbers) {
      host.AddEvent(host.EventId("train"), number * 10 * kMs * 1000, 8 * kMs * 1000);
      host.AddEventStat(host.StatId("step_num"), number);
    }
  }
  environment.AddPlaneStat(xplane::kProfileStart, static_cast<std::uint64_t>(kStepZero));
  return {.outcome = Outcome::kOk,
          .xspace = host.Encode() + environment.Encode(),
          .stepping_processes = static_cast<std::size_t>(processes)};
}

v1::Report Asked(std::int64_t first, std::uint32_t count) {
  v1::Report report;
  v1::CapturePlan& plan = *report.mutable_plan();
  plan.set_first_step(first);
  plan.set_steps(count);
  plan.set_step_loop("train");
  plan.set_duration_ns(1);
  return report;
}

analysis::Judgement JudgeRecorded(const Recording& recording, v1::Report& report) {
  EXPECT_TRUE(FillSteps(recording, report).ok());
  return JudgeSteps(report, {Outcome::kOk, "", true});
}

TEST(StepReport, TheWindowIsTheTimeOfTheSteps) {
  v1::Report report = Asked(4, 2);
  const analysis::Judgement judged = JudgeRecorded(Recorded({3, 4, 5, 6}), report);
  EXPECT_EQ(judged.outcome, Outcome::kOk);
  EXPECT_TRUE(judged.covers_window);
  EXPECT_EQ(report.steps().first(), 4);
  EXPECT_EQ(report.steps().last(), 5);
  EXPECT_EQ(report.plan().instant_ns(), kStepZero + 40 * kMs);
  EXPECT_EQ(report.plan().duration_ns(), 18 * kMs);
}

TEST(StepReport, StepsThatAreMissingAreNamed) {
  v1::Report report = Asked(4, 3);
  analysis::Judgement judged = JudgeRecorded(Recorded({5, 6, 7}), report);
  EXPECT_EQ(judged.outcome, Outcome::kLateStart);
  EXPECT_EQ(judged.message,
            "only steps 5 to 6 of the requested steps 4 to 6 of train were recorded completely: "
            "recording began after the first one");
  report = Asked(4, 3);
  judged = JudgeRecorded(Recorded({3, 4}), report);
  EXPECT_THAT(judged.message, HasSubstr("only step 4 of the requested steps 4 to 6 of train "
                                        "was recorded completely: recording ended"));
  EXPECT_FALSE(judged.covers_window);
  report = Asked(4, 3);
  judged = JudgeRecorded(Recorded({1, 2}), report);
  EXPECT_EQ(judged.message, "none of steps 4 to 6 of train was recorded completely");
}

TEST(StepReport, AProcessThatIsMissingMakesItIncomplete) {
  v1::Report report = Asked(4, 2);
  Recording recording = Recorded({4, 5}, 2);
  EXPECT_EQ(JudgeRecorded(recording, report).outcome, Outcome::kOk);
  recording.stepping_processes = 3;
  report = Asked(4, 2);
  EXPECT_EQ(JudgeRecorded(recording, report).outcome, Outcome::kLateStart);
}

TEST(StepReport, AnEarlyEndAsksForLess) {
  v1::Report report = Asked(4, 10);
  Recording recording = Recorded({3, 4, 5});
  recording.ended_early = true;
  EXPECT_EQ(JudgeRecorded(recording, report).outcome, Outcome::kOk);
  EXPECT_EQ(report.plan().steps(), 2u);
}

TEST(StepReport, AStepThatEndedAfterTheRecordingIsNotComplete) {
  v1::Report report = Asked(4, 2);
  report.set_stopped_ns(kStepZero + 55 * kMs);
  EXPECT_EQ(JudgeRecorded(Recorded({4, 5}), report).outcome, Outcome::kLateStart);
  EXPECT_EQ(report.steps().last(), 4);
}

TEST(StepReport, WorseCausesRemain) {
  v1::Report report = Asked(4, 2);
  ASSERT_TRUE(FillSteps(Recorded({1}), report).ok());
  EXPECT_EQ(JudgeSteps(report, {Outcome::kPermissionDenied, "x", true}).outcome,
            Outcome::kPermissionDenied);
}

TEST(StepReport, AWindowOfTimeTellsItsStepsAndKeepsItsTimes) {
  v1::Report report;
  report.mutable_plan()->set_instant_ns(5);
  ASSERT_TRUE(FillSteps(Recorded({3, 4, 8}), report).ok());
  EXPECT_EQ(report.steps().loop(), "train");
  EXPECT_EQ(report.steps().first(), 3);
  EXPECT_EQ(report.steps().last(), 4);
  EXPECT_EQ(report.plan().instant_ns(), 5);
}

TEST(TraceFile, ALateTraceTellsTooHowManyEventsAreMissing) {
  v1::Report report;
  report.mutable_plan()->set_instant_ns(kStepZero - kMs);
  MakeTraceFile(Recorded({3}), report);
  EXPECT_EQ(report.outcome(), v1::LATE_START);
  EXPECT_EQ(report.message(), "recording began 1ms after the instant");
  report.mutable_dropped_events()->insert({{"ring", 5}, {"device", 2}});
  MakeTraceFile(Recorded({3}), report);
  EXPECT_EQ(report.outcome(), v1::LATE_START);
  EXPECT_EQ(report.message(),
            "recording began 1ms after the instant; 7 events were dropped besides");
}

}  // namespace
}  // namespace strobe::session
