#include "collector/trace/analysis/judge.h"

#include <gtest/gtest.h>

namespace strobe::analysis {
namespace {

using namespace std::chrono_literals;

const Window kWindow{WallTime{10s}, 1s};

xplane::TraceSummary Summary() {
  xplane::TraceSummary trace;
  trace.planes = {{"/host:CPU", 1, 5}};
  trace.events = 5;
  trace.started_ns = Nanos(9995ms).count();
  trace.stopped_ns = Nanos(11005ms).count();
  return trace;
}

TEST(JudgeTrace, OkWhenItHasEventsAndCoversTheWindow) {
  const Judgement judged = JudgeTrace(Summary(), {kWindow});
  EXPECT_EQ(judged.outcome, Outcome::kOk);
  EXPECT_TRUE(judged.covers_window);
}

TEST(JudgeTrace, ANanosecondLateIsLate) {
  xplane::TraceSummary trace = Summary();
  trace.started_ns = Nanos(10s).count();
  EXPECT_EQ(JudgeTrace(trace, {kWindow}).outcome, Outcome::kOk);
  trace.started_ns += 1;
  EXPECT_EQ(JudgeTrace(trace, {kWindow}).outcome, Outcome::kLateStart);
  EXPECT_EQ(JudgeTrace(trace, {kWindow}).message, "recording began 1ns after the instant");
  trace.warnings = {"7 events dropped"};
  EXPECT_EQ(JudgeTrace(trace, {kWindow}).outcome, Outcome::kLateStart);
  EXPECT_EQ(JudgeTrace(trace, {kWindow}).message,
            "recording began 1ns after the instant; 7 events dropped");
}

TEST(JudgeTrace, StoppingEarlyMissesTheWindowToo) {
  xplane::TraceSummary trace = Summary();
  trace.stopped_ns = Nanos(10900ms).count();
  EXPECT_EQ(JudgeTrace(trace, {kWindow}).message, "recording ended 100ms before the window did");
}

TEST(JudgeTrace, ATraceWithoutTimesCoversNothing) {
  xplane::TraceSummary trace = Summary();
  trace.started_ns = 0;
  EXPECT_FALSE(JudgeTrace(trace, {kWindow}).covers_window);
}

TEST(JudgeTrace, NamesTheCauseOfAnEmptyTrace) {
  xplane::TraceSummary trace = Summary();
  trace.events = trace.planes[0].events = 0;
  EXPECT_EQ(JudgeTrace(trace, {kWindow}).outcome, Outcome::kNoHostEvents);
  trace.errors = {"host: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"};
  EXPECT_EQ(JudgeTrace(trace, {kWindow}).outcome, Outcome::kPermissionDenied);
}

TEST(JudgeTrace, LooksAtDevices) {
  xplane::TraceSummary trace = Summary();
  EXPECT_EQ(JudgeTrace(trace, {kWindow, true}).outcome, Outcome::kDeviceTraceMissing);
  trace.planes.push_back({"/device:CUSTOM:Megascale Trace", 1, 0});
  EXPECT_EQ(JudgeTrace(trace, {kWindow, true}).outcome, Outcome::kDeviceTraceMissing);
  EXPECT_EQ(JudgeTrace(trace, {kWindow, false}).outcome, Outcome::kOk) << "it is no idle device";
  trace.planes.push_back({"/device:GPU:0", 1, 0});
  EXPECT_EQ(JudgeTrace(trace, {kWindow, true}).outcome, Outcome::kNoDeviceActivity);
  trace.planes.back().events = trace.planes.back().values = 1;
  EXPECT_EQ(JudgeTrace(trace, {kWindow, true}).outcome, Outcome::kNoDeviceActivity);
  EXPECT_EQ(JudgeTrace(trace, {kWindow, true}).message,
            "the trace's device planes have no event but values of counters in a window of 1s");
  trace.planes.back().events = 2;
  EXPECT_EQ(JudgeTrace(trace, {kWindow, true}).outcome, Outcome::kOk);
  trace.warnings = {"Detected GPU events dropped on host"};
  EXPECT_EQ(JudgeTrace(trace, {kWindow, true}).outcome, Outcome::kEventsDropped);
}

TEST(JudgeTrace, AFileThatCouldNotBeReadWholeIsNotOk) {
  for (const char* warning :
       {"1 event could not be read: malformed JSON, 118 bytes from byte 220 on",
        "2 events could not be read: more than 2 MiB", "the file is cut: its end is missing"}) {
    xplane::TraceSummary trace = Summary();
    trace.warnings = {warning};
    EXPECT_EQ(JudgeTrace(trace, {kWindow}).outcome, Outcome::kEventsDropped);
    EXPECT_EQ(JudgeTrace(trace, {kWindow}).message, warning);
    trace.events = trace.planes[0].events = 0;
    EXPECT_EQ(JudgeTrace(trace, {kWindow}).message, warning) << "this is why there are none";
  }
  xplane::TraceSummary trace = Summary();
  trace.warnings = {"30 events could not be read: no time, or an impossible one"};
  EXPECT_EQ(JudgeTrace(trace, {kWindow}).outcome, Outcome::kOk);
}

}  // namespace
}  // namespace strobe::analysis
