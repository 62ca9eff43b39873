#include "sidecar/source/device/device_verdict.h"

#include <gmock/gmock.h>

namespace strobe::source {
namespace {

using testing::HasSubstr;
using wire::DevicePhase;
using wire::DeviceStep;

TEST(DeviceVerdict, ProgramsWithoutCudaHaveNothingToSay) {
  EXPECT_EQ(JudgeDevice({}).outcome, Outcome::kOk);
  EXPECT_EQ(JudgeDevice({.answered = true, .phase = DevicePhase::kNoCuda}).outcome, Outcome::kOk);
}

TEST(DeviceVerdict, SilenceOfACudaProgramIsAFailure) {
  EXPECT_EQ(JudgeDevice({.uses_cuda = true}).outcome, Outcome::kProfilerStartFailed);
}

TEST(DeviceVerdict, WhoWasNotAskedNeedNotAnswer) {
  EXPECT_EQ(JudgeDevice({.was_asked = false, .uses_cuda = true}).outcome, Outcome::kOk);
}

TEST(DeviceVerdict, EachPhaseHasItsOutcome) {
  const auto outcome = [](DevicePhase phase, std::uint64_t lost = 0) {
    return JudgeDevice({.answered = true, .uses_cuda = true, .phase = phase, .lost = lost}).outcome;
  };
  EXPECT_EQ(outcome(DevicePhase::kNoCupti), Outcome::kCuptiUnavailable);
  EXPECT_EQ(outcome(DevicePhase::kArmed), Outcome::kEventsDropped);
  EXPECT_EQ(outcome(DevicePhase::kFlushed), Outcome::kOk);
  EXPECT_EQ(outcome(DevicePhase::kFlushed, 3), Outcome::kEventsDropped);
}

TEST(DeviceVerdict, KernelsWithWrongTimesAreMissing) {
  const DeviceVerdict verdict = JudgeDevice(
      {.answered = true, .uses_cuda = true, .phase = DevicePhase::kFlushed, .mistimed = 7});
  EXPECT_EQ(verdict.outcome, Outcome::kEventsDropped);
  EXPECT_THAT(verdict.message, HasSubstr("7 kernels are missing or misplaced"));
}

TEST(DeviceVerdict, ResultsAreNamedAndExplained) {
  const auto verdict = [](std::uint32_t result) {
    return JudgeDevice({.answered = true,
                        .uses_cuda = true,
                        .phase = DevicePhase::kFailed,
                        .step = DeviceStep::kSubscribe,
                        .result = result});
  };
  EXPECT_EQ(verdict(39).outcome, Outcome::kBusy);
  EXPECT_THAT(verdict(39).message, HasSubstr("subscribing to CUPTI failed: "
                                             "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"));
  EXPECT_EQ(verdict(35).outcome, Outcome::kPermissionDenied);
  EXPECT_EQ(verdict(14).outcome, Outcome::kVersionMismatch);
  EXPECT_EQ(verdict(15).outcome, Outcome::kProfilerStartFailed);
  EXPECT_THAT(verdict(12345).message, HasSubstr("CUPTI error 12345"));
  EXPECT_EQ(JudgeDevice({.answered = true,
                         .phase = DevicePhase::kFailed,
                         .step = DeviceStep::kFlush,
                         .result = 999})
                .outcome,
            Outcome::kEventsDropped);
}

TEST(DeviceVerdict, BusyNamesTheToolThatHoldsCupti) {
  DeviceStatus status{.answered = true,
                      .phase = DevicePhase::kFailed,
                      .step = DeviceStep::kSubscribe,
                      .result = 39};
  EXPECT_TRUE(JudgeDevice(status).message.ends_with("another profiler holds CUPTI in this process"))
      << "before CUDA 13 it is not known";
  status.holder = "Nsight Systems";
  EXPECT_EQ(JudgeDevice(status).outcome, Outcome::kBusy);
  EXPECT_THAT(JudgeDevice(status).message,
              HasSubstr("another profiler holds CUPTI in this process: Nsight Systems"));
}

TEST(DescribeRecording, TellsWhatAModeCannotShowAndWhoSharesCupti) {
  DeviceStatus status{.answered = true, .phase = DevicePhase::kFlushed};
  EXPECT_THAT(DescribeRecording(status), HasSubstr("mode Launches: the trace shows only those"));
  EXPECT_FALSE(IsMuchLeftOut(status)) << "that is the default";
  status.mode = DeviceMode::kKernels;
  EXPECT_THAT(DescribeRecording(status), HasSubstr("mode Kernels: the trace shows no calls"));
  EXPECT_TRUE(IsMuchLeftOut(status));
  status.mode = DeviceMode::kGraphs;
  status.holder = std::string(64, 'x');
  EXPECT_THAT(DescribeRecording(status), HasSubstr("not the kernels within CUDA graphs"));
  EXPECT_LE(DescribeRecording(status).size(), 300u);
  status.mode = DeviceMode::kAll;
  EXPECT_EQ(DescribeRecording(status), "CUPTI was shared with " + status.holder);
  EXPECT_FALSE(IsMuchLeftOut(status));
  status.phase = DevicePhase::kFailed;
  EXPECT_EQ(DescribeRecording(status), "") << "nothing was recorded";
}

// A hostile program may write any numbers.
TEST(DeviceVerdict, TakesAnyNumber) {
  EXPECT_EQ(JudgeDevice({.answered = true, .phase = static_cast<DevicePhase>(77)}).outcome,
            Outcome::kOk);
  EXPECT_THAT(JudgeDevice({.answered = true,
                           .phase = DevicePhase::kFailed,
                           .step = static_cast<DeviceStep>(77),
                           .result = ~0u})
                  .message,
              HasSubstr("recording the device failed"));
}

}  // namespace
}  // namespace strobe::source
