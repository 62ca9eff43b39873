#include "sidecar/source/agent/process_row.h"

#include <gmock/gmock.h>

namespace strobe::source {
namespace {

using testing::HasSubstr;
using wire::DevicePhase;

constexpr std::int64_t kMs = 1'000'000, kSecond = 1000 * kMs;
// A window of 2 s that begins at 10 s, with a guard of 100 ms.
constexpr CaptureTimes kTimes{.start_ns = 10 * kSecond - 100 * kMs,
                              .stop_ns = 12 * kSecond + 100 * kMs,
                              .instant_ns = 10 * kSecond,
                              .end_ns = 12 * kSecond,
                              .wall_minus_monotonic_ns = 1000 * kSecond};

// A program that was recorded as planned.
ProgramFacts Good() {
  return {.label = "train 7",
          .born_ns = kSecond,
          .on_ns = kTimes.start_ns - 20 * kMs,
          .off_ns = kTimes.stop_ns,
          .seen_ns = kTimes.stop_ns + kMs,
          .ever_recorded = true,
          .kept = 100,
          .device = {.was_asked = false}};
}

v1::ProcessReport Row(const ProgramFacts& facts, bool expects_device = false) {
  return JudgeProgram(facts, kTimes, expects_device).row;
}

Outcome OutcomeOf(const v1::ProcessReport& row) { return static_cast<Outcome>(row.outcome()); }

TEST(ProcessRow, AGoodProgramIsOkFromThePlannedStartOn) {
  const v1::ProcessReport row = Row(Good());
  EXPECT_EQ(OutcomeOf(row), Outcome::kOk);
  EXPECT_EQ(row.message(), "");
  EXPECT_EQ(row.started_ns(), kTimes.Wall(kTimes.start_ns)) << "what came before is cut off";
  EXPECT_EQ(row.stopped_ns(), kTimes.Wall(kTimes.stop_ns));
  EXPECT_EQ(row.events(), 100u);
}

TEST(ProcessRow, AProgramThatHadEndedBeforeIsNoFaultOfTheCapture) {
  ProgramFacts facts = Good();
  facts.on_ns = facts.off_ns = 0;
  facts.lives = false;
  facts.ended_before = true;
  facts.last_record_ns = kTimes.start_ns - 3 * kSecond;
  const v1::ProcessReport row = Row(facts, /*expects_device=*/true);
  EXPECT_EQ(OutcomeOf(row), Outcome::kOk);
  EXPECT_THAT(row.message(), HasSubstr("its last record ended 3s before recording began"));
  EXPECT_EQ(row.started_ns(), 0) << "it was not recorded in the window";
  facts.last_record_ns = 0;
  EXPECT_THAT(Row(facts).message(), HasSubstr("its rings contain no records"));
}

TEST(ProcessRow, ALateSwitchIsALateStart) {
  ProgramFacts facts = Good();
  facts.on_ns = kTimes.instant_ns - kMs;
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kOk) << "the guard is there to absorb it";
  EXPECT_EQ(Row(facts).started_ns(), kTimes.Wall(facts.on_ns));
  facts.on_ns = kTimes.instant_ns + 1200 * kMs;
  const v1::ProcessReport row = Row(facts);
  EXPECT_EQ(OutcomeOf(row), Outcome::kLateStart);
  EXPECT_THAT(row.message(), HasSubstr("1.2s after the instant"));
  EXPECT_EQ(row.started_ns(), kTimes.Wall(facts.on_ns));
  facts.on_ns = facts.off_ns = kTimes.stop_ns + kSecond;
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kLateStart);
  facts.on_ns = facts.off_ns = 0;
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kLateStart) << "never switched on";
  EXPECT_EQ(Row(facts).started_ns(), 0);
}

TEST(ProcessRow, AnEarlySwitchOffIsTold) {
  ProgramFacts facts = Good();
  facts.off_ns = kTimes.end_ns - 500 * kMs;
  const v1::ProcessReport row = Row(facts);
  EXPECT_EQ(OutcomeOf(row), Outcome::kLateStart);
  EXPECT_THAT(row.message(),
              HasSubstr("something else switched off recording 500ms before the window ended"));
  EXPECT_EQ(row.stopped_ns(), kTimes.Wall(facts.off_ns));
}

TEST(ProcessRow, AYoungerProgramCountsFromItsBeginning) {
  ProgramFacts facts = Good();
  facts.born_ns = facts.on_ns = kTimes.instant_ns + 300 * kMs;
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kOk);
  EXPECT_EQ(Row(facts).started_ns(), kTimes.Wall(facts.born_ns));
  facts.on_ns += 40 * kMs;
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kLateStart);
  EXPECT_THAT(Row(facts).message(), HasSubstr("40ms after the program did"));
}

TEST(ProcessRow, OnlyAProgramThatRecordedAndDidNotEndCleanlyIsLost) {
  ProgramFacts facts = Good();
  facts.lives = false;
  facts.seen_ns = kTimes.instant_ns + kSecond;
  facts.off_ns = facts.seen_ns;
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kWorkerLost) << "killed";
  ProgramFacts clean = facts;
  clean.ended_cleanly = true;
  clean.ended_ns = facts.seen_ns;
  EXPECT_EQ(OutcomeOf(Row(clean)), Outcome::kOk);
  EXPECT_THAT(Row(clean).message(), HasSubstr("ended 1s before the window did"));
  ProgramFacts child = facts;
  child.parent_lives = true;
  EXPECT_EQ(OutcomeOf(Row(child)), Outcome::kOk) << "a data loader's worker that ends by _exit";
  ProgramFacts silent = facts;
  silent.kept = 0;
  silent.ever_recorded = false;
  EXPECT_EQ(OutcomeOf(Row(silent)), Outcome::kOk) << "it never recorded anything";
  silent.ever_recorded = true;
  EXPECT_EQ(OutcomeOf(Row(silent)), Outcome::kWorkerLost) << "a trainer within a long step";
  ProgramFacts launcher = facts;
  launcher.replaced = true;
  EXPECT_EQ(OutcomeOf(Row(launcher)), Outcome::kOk) << "exec";
  launcher.device = {.answered = true, .uses_cuda = true, .phase = DevicePhase::kArmed};
  EXPECT_EQ(OutcomeOf(Row(launcher)), Outcome::kWorkerLost) << "its devices' records are gone";
  ProgramFacts after = facts;
  after.seen_ns = after.off_ns = kTimes.end_ns + kMs;
  EXPECT_EQ(OutcomeOf(Row(after)), Outcome::kOk) << "the window was over when it was killed";
  child.device = {.answered = true, .uses_cuda = true, .phase = DevicePhase::kArmed};
  EXPECT_EQ(OutcomeOf(Row(child)), Outcome::kWorkerLost) << "CUPTI's last records are gone";
}

// The sidecar was suspended over the window, and the program has ended before it looked again.
TEST(ProcessRow, AProgramThatMayHaveRunUnrecordedIsALateStart) {
  ProgramFacts facts = Good();
  facts.lives = facts.ever_recorded = false;
  facts.kept = 0;
  facts.on_ns = facts.off_ns = 0;
  facts.seen_ns = kTimes.start_ns - 50 * kMs;
  facts.gone_ns = kTimes.stop_ns + kMs;
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kLateStart);
  EXPECT_THAT(Row(facts).message(), HasSubstr("not switched on before the window ended"));
  EXPECT_TRUE(JudgeProgram(facts, kTimes, false).unrecorded);
  facts.gone_ns = kTimes.start_ns - kMs;
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kOk) << "it had ended before the window";

  facts.gone_ns = kTimes.end_ns - kMs;
  facts.on_ns = facts.off_ns = kTimes.instant_ns + kSecond;
  EXPECT_THAT(Row(facts).message(), HasSubstr("recording began 1s after the instant"));
  facts.on_ns = kTimes.start_ns - 20 * kMs;
  facts.off_ns = facts.gone_ns;
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kOk) << "recording was on all the time";
}

TEST(ProcessRow, DamageAndLossAreTold) {
  ProgramFacts facts = Good();
  facts.lost = 5;
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kEventsDropped);
  EXPECT_THAT(Row(facts).message(), HasSubstr("5 of 105 records are missing"));
  EXPECT_EQ(Row(facts).dropped(), 5u);
  facts.rings_damaged = true;
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kProfilerStartFailed);
  facts.file_damaged = true;
  EXPECT_THAT(Row(facts).message(), HasSubstr("truncated"));
}

TEST(ProcessRow, NamesThatWereCutAreTold) {
  ProgramFacts facts = Good();
  EXPECT_THAT(JudgeProgram(facts, kTimes, false).warnings, testing::IsEmpty());
  facts.device.cut_names = 3;
  EXPECT_THAT(JudgeProgram(facts, kTimes, false).warnings,
              testing::ElementsAre(HasSubstr("3 names of the GPUs' work were truncated")));
}

TEST(ProcessRow, CollectivesOfTooManyCommunicatorsAreTold) {
  ProgramFacts facts = Good();
  facts.collectives_without_entry = 3;
  EXPECT_THAT(JudgeProgram(facts, kTimes, false).warnings,
              testing::ElementsAre(HasSubstr("3 collectives are not shown: their process has made "
                                             "more than 256 communicators")));
}

TEST(ProcessRow, DevicesLeftOutOnPurposeMatterOnlyWhereTheyAreExpected) {
  ProgramFacts facts = Good();
  facts.device = {.uses_cuda = true, .refusal = wire::DeviceRefusal::kSwitchedOff};
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kOk);
  EXPECT_THAT(Row(facts).message(), HasSubstr("STROBE_DEVICE=off"));
  EXPECT_EQ(OutcomeOf(Row(facts, true)), Outcome::kDeviceTraceMissing);
  facts.device = {.answered = true, .uses_cuda = true, .phase = DevicePhase::kKineto};
  EXPECT_EQ(OutcomeOf(Row(facts, true)), Outcome::kDeviceTraceMissing);
  EXPECT_THAT(Row(facts, true).message(), HasSubstr("Kineto"));
  facts.device.phase = DevicePhase::kFramework;
  EXPECT_EQ(OutcomeOf(Row(facts, true)), Outcome::kOk) << "its own profiler server has them";
}

TEST(ProcessRow, BuffersThatSomebodyElseGotAreCounted) {
  ProgramFacts facts = Good();
  facts.device = {
      .answered = true, .uses_cuda = true, .phase = DevicePhase::kFlushed, .buffers_lost = 3};
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kEventsDropped);
  EXPECT_THAT(Row(facts).message(), HasSubstr("3 buffers"));
}

TEST(ProcessRow, DevicesMustCoverTheWindowToo) {
  ProgramFacts facts = Good();
  facts.device = {.answered = true, .uses_cuda = true, .phase = DevicePhase::kFlushed};
  facts.device_began_ns = kTimes.start_ns - kSecond;
  facts.device_ended_ns = kTimes.stop_ns + kMs;
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kOk);
  facts.device_began_ns = kTimes.instant_ns + 70 * kMs;
  EXPECT_EQ(OutcomeOf(Row(facts)), Outcome::kLateStart);
  EXPECT_THAT(Row(facts).message(), HasSubstr("70ms after the start"));
  facts.cuda_since_ns = kTimes.instant_ns + 30 * kMs;
  EXPECT_THAT(Row(facts).message(), HasSubstr("40ms after it started CUDA"));
  facts.device_began_ns = kTimes.start_ns;
  facts.device_ended_ns = kTimes.end_ns - 10 * kMs;
  EXPECT_THAT(Row(facts).message(), HasSubstr("only until 10ms before the window ended"));
}

}  // namespace
}  // namespace strobe::source
