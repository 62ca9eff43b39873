#include "collector/trace/analysis/verdict.h"

#include <gmock/gmock.h>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"

namespace strobe::analysis {
namespace {

using testing::Contains;
using testing::ElementsAre;

constexpr std::int64_t kVerdictStart = 1'790'000'000'000'000'000, kSecond = 1'000'000'000;

struct Given {
  std::int64_t late_ns = 0;
  int steps = 3, kernels = 5;
  bool device = true, ours = true, expects_device = false, counter = false;
  std::string outcome = "Ok", message{};
  std::int64_t memory_percent = 0, step_before_ns = 0, step_during_ns = 0;
};

Verdict Judge(const Given& given, bool expects_device = false) {
  xplane::PlaneBuilder host(xplane::kHostPlane), gpu("/device:GPU:0"),
      environment(xplane::kTaskEnvironmentPlane), strobe(xplane::kStrobePlane);
  host.BeginLine(1, "main", 0);
  for (int i = 0; i < given.steps; ++i) {
    host.AddEvent(host.EventId("train"), i * 200'000'000'000ll, 100'000'000'000);
    host.AddEventStat(host.StatId("step_num"), std::int64_t{i});
  }
  gpu.BeginLine(1, "Stream #1(Compute)", 0);
  for (int i = 0; i < given.kernels; ++i) gpu.AddEvent(gpu.EventId("kernel"), i * 1000, 500);
  if (given.counter) {
    gpu.BeginLine(2, xplane::kCounterLine, 0);
    gpu.AddEvent(gpu.EventId("Total Allocated"), 1000, 0);
  }
  environment.AddPlaneStat(xplane::kProfileStart,
                           static_cast<std::uint64_t>(kVerdictStart + given.late_ns));
  environment.AddPlaneStat(xplane::kProfileStop,
                           static_cast<std::uint64_t>(kVerdictStart + 2 * kSecond));
  strobe.AddPlaneStat("instant_ns", kVerdictStart);
  strobe.AddPlaneStat("duration_ns", kSecond);
  strobe.AddPlaneStat("expects_device", std::int64_t{given.expects_device});
  strobe.AddPlaneStat("outcome", given.outcome);
  strobe.AddPlaneStat("message", given.message);
  strobe.AddPlaneStat("job_memory_percent", given.memory_percent);
  strobe.AddPlaneStat("job_step_before_ns", given.step_before_ns);
  strobe.AddPlaneStat("job_step_during_ns", given.step_during_ns);
  const std::string trace = host.Encode() + environment.Encode() +
                            (given.device ? gpu.Encode() : "") +
                            (given.ours ? strobe.Encode() : "");
  const xplane::Space space = *xplane::Space::Read(trace);
  return *JudgeSpace(space, *FindSteps(space), expects_device);
}

TEST(JudgeSpace, AGoodTraceIsOkAndSaysWhy) {
  const Verdict verdict = Judge({});
  EXPECT_EQ(verdict.judgement.outcome, Outcome::kOk);
  EXPECT_THAT(verdict.evidence, ElementsAre("recorded for 2s, asked for 1s",
                                            "3 events on hosts, 5 events on 1 device",
                                            "3 training steps of about 100ms"));
}

TEST(JudgeSpace, AgainstTheWindowThatWasAskedFor) {
  const Verdict verdict = Judge({.late_ns = 7'000'000});
  EXPECT_EQ(verdict.judgement.outcome, Outcome::kLateStart);
  EXPECT_EQ(verdict.judgement.message, "recording began 7ms after the instant");
  EXPECT_EQ(Judge({.late_ns = 7'000'000, .ours = false}).judgement.outcome, Outcome::kOk)
      << "of others nobody knows what was asked";
}

TEST(JudgeSpace, TheSidecarsOwnVerdictStands) {
  const Verdict verdict =
      Judge({.outcome = "WorkerLost", .message = "ended while it was recorded: python (7)"});
  EXPECT_EQ(verdict.judgement.outcome, Outcome::kWorkerLost);
  EXPECT_EQ(verdict.judgement.message, "ended while it was recorded: python (7)");
  EXPECT_THAT(verdict.evidence, Contains("this is the judgement of the sidecar that recorded it"));
}

TEST(JudgeSpace, SaysWhatTheCaptureCostTheJob) {
  const Verdict verdict =
      Judge({.memory_percent = 63, .step_before_ns = 20'000'000, .step_during_ns = 31'000'000});
  EXPECT_THAT(verdict.evidence, Contains("steps took 31ms while recorded, 20ms before (+55%)"));
  EXPECT_THAT(verdict.evidence,
              Contains("the trainer used at most 63% of its memory limit during the capture"));
}

TEST(JudgeSpace, ATraceOfAnAcceleratorsPodRemembersIt) {
  EXPECT_EQ(Judge({.device = false, .expects_device = true}).judgement.outcome,
            Outcome::kDeviceTraceMissing);
  EXPECT_EQ(Judge({.device = false}).judgement.outcome, Outcome::kOk);
}

TEST(JudgeSpace, NamesTheCause) {
  Verdict verdict = Judge({.kernels = 0});
  EXPECT_EQ(verdict.judgement.outcome, Outcome::kNoDeviceActivity);
  EXPECT_THAT(verdict.evidence, Contains("/device:GPU:0 has no event"));
  verdict = Judge({.kernels = 0, .counter = true}, true);
  EXPECT_EQ(verdict.judgement.outcome, Outcome::kNoDeviceActivity);
  EXPECT_THAT(verdict.evidence, Contains("/device:GPU:0 has no event but values of counters"));
  verdict = Judge({.device = false}, true);
  EXPECT_EQ(verdict.judgement.outcome, Outcome::kDeviceTraceMissing);
  EXPECT_THAT(verdict.evidence, Contains("3 events on hosts, no device plane"));
  verdict = Judge({.steps = 0, .kernels = 0, .device = false});
  EXPECT_EQ(verdict.judgement.outcome, Outcome::kNoHostEvents);
  EXPECT_THAT(verdict.evidence,
              Contains("no training step was found: none ended within the window, or the loop is "
                       "not annotated"));
}

}  // namespace
}  // namespace strobe::analysis
