#include "operator/schedule/schedule_decision.h"

#include <gmock/gmock.h>

namespace strobe::schedule {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class DecideScheduleTest : public testing::Test {
 protected:
  DecideScheduleTest() {
    schedule_.ns = "ml";
    schedule_.name = "s";
    schedule_.uid = "uid";
    schedule_.created = kMidnight;
    schedule_.timing.cron = "@hourly";
    schedule_.keep_succeeded = schedule_.keep_failed = 3;
  }

  // Decides, and takes over the status as if all had been done.
  Decision Decide(WallTime now) {
    Decision decision = DecideSchedule(schedule_, runs_, bounds_, now);
    schedule_.status = decision.status;
    if (decision.due) {
      schedule_.status = Started(schedule_.status, *decision.due);
      runs_.push_back({.name = decision.due->name, .uid = decision.due->name});
    }
    return decision;
  }
  void End(std::size_t run, kube::RunState state) {
    runs_.at(run).state = state;
    runs_.at(run).completion = kMidnight + 90min;
  }
  std::string SkipReason() const {
    return schedule_.status.last_skip ? schedule_.status.last_skip->reason : "";
  }

  const WallTime kMidnight = WallTime{std::chrono::seconds(1'730'419'200)};
  ProfileSchedule schedule_;
  std::vector<kube::CreatedRun> runs_;
  std::optional<policy::SeriesBounds> bounds_ = policy::SeriesBounds{};
};

TEST_F(DecideScheduleTest, StartsARunWhenItIsDueAndOnlyOnce) {
  EXPECT_FALSE(Decide(kMidnight + 1min).due);
  EXPECT_EQ(schedule_.status.next_schedule, kMidnight + 1h);
  const Decision due = Decide(kMidnight + 1h + 1s);
  ASSERT_TRUE(due.due);
  EXPECT_EQ(due.due->time, kMidnight + 1h);
  EXPECT_EQ(due.due->name, "s-20241101-010000");
  EXPECT_EQ(schedule_.status.last_schedule, kMidnight + 1h);
  EXPECT_THAT(schedule_.status.active, ElementsAre(ActiveRun{"s-20241101-010000", due.due->time}));
  EXPECT_FALSE(Decide(kMidnight + 1h + 2s).due);
  const ScheduleStatus before = schedule_.status;
  EXPECT_FALSE(Decide(kMidnight + 1h + 3s).due);
  EXPECT_EQ(schedule_.status, before) << "nothing to write";
}

TEST_F(DecideScheduleTest, LooksAtTheClockAgainAfterHalfAMinuteAtMost) {
  EXPECT_EQ(Decide(kMidnight + 1min).look_again, 30s);
  EXPECT_EQ(Decide(kMidnight + 59min + 55s).look_again, 5s);
}

TEST_F(DecideScheduleTest, CountsEachEndOnce) {
  Decide(kMidnight + 1h);
  End(0, kube::RunState::kSucceeded);
  Decide(kMidnight + 1h + 5min);
  EXPECT_EQ(schedule_.status.succeeded, 1);
  EXPECT_EQ(schedule_.status.last_success, kMidnight + 90min);
  EXPECT_THAT(schedule_.status.active, IsEmpty());
  Decide(kMidnight + 1h + 6min);
  EXPECT_EQ(schedule_.status.succeeded, 1);
  Decide(kMidnight + 2h);
  End(1, kube::RunState::kFailed);
  Decide(kMidnight + 3h);
  End(2, kube::RunState::kCancelled);
  Decide(kMidnight + 4h);
  runs_.pop_back();
  EXPECT_THAT(Decide(kMidnight + 4h + 1min).gone, ElementsAre("s-20241101-040000"));
  EXPECT_EQ(schedule_.status.started, 4);
  EXPECT_EQ(schedule_.status.failed, 1);
  EXPECT_EQ(schedule_.status.cancelled, 2) << "the one that was deleted too";
}

TEST_F(DecideScheduleTest, ForbidSkipsAndReplaceCancels) {
  Decide(kMidnight + 1h);
  EXPECT_FALSE(Decide(kMidnight + 2h).due);
  EXPECT_EQ(SkipReason(), "StillActive");
  EXPECT_THAT(schedule_.status.last_skip->message, HasSubstr("s-20241101-010000 is still"));
  schedule_.concurrency = ConcurrencyPolicy::kReplace;
  const Decision replaced = Decide(kMidnight + 3h);
  EXPECT_TRUE(replaced.due);
  ASSERT_THAT(replaced.cancel, SizeIs(1));
  EXPECT_EQ(replaced.cancel[0].name, "s-20241101-010000");
  runs_[0].cancelling = true;
  schedule_.concurrency = ConcurrencyPolicy::kAllow;
  EXPECT_TRUE(Decide(kMidnight + 4h).due);
  EXPECT_EQ(schedule_.status.skipped, 1);
  EXPECT_THAT(schedule_.status.active, SizeIs(3));
}

TEST_F(DecideScheduleTest, RunsThatNeverEndAreBounded) {
  schedule_.concurrency = ConcurrencyPolicy::kAllow;
  for (int hour = 1; hour <= 40; ++hour) Decide(kMidnight + hour * 1h);
  EXPECT_EQ(schedule_.status.active.size(), kMaxActiveRuns);
  EXPECT_EQ(SkipReason(), "TooManyActive");
  EXPECT_EQ(schedule_.status.skipped, 8);
}

TEST_F(DecideScheduleTest, OfTimesThatWereMissedTheNewestIsMadeUpFor) {
  const Decision late = Decide(kMidnight + 5h + 40min);
  ASSERT_TRUE(late.due);
  EXPECT_EQ(late.due->time, kMidnight + 5h);
  EXPECT_EQ(schedule_.status.skipped, 4);
  EXPECT_EQ(SkipReason(), "Missed");
  EXPECT_EQ(schedule_.status.last_skip->time, kMidnight + 4h);
  EXPECT_THAT(schedule_.status.last_skip->message, HasSubstr("4 runs were due"));
}

TEST_F(DecideScheduleTest, ARunThatNoStatusTellsOfWasStarted) {
  Decide(kMidnight + 1min);
  // The operator that created it ended before it wrote the status, and its successor came late.
  runs_.push_back({.name = "s-20241101-020000", .state = kube::RunState::kSucceeded});
  schedule_.keep_succeeded = 0;
  const Decision late = Decide(kMidnight + 4h + 1min);
  ASSERT_TRUE(late.due);
  EXPECT_EQ(late.due->time, kMidnight + 4h);
  EXPECT_THAT(late.remove, SizeIs(1));
  EXPECT_EQ(schedule_.status.succeeded, 1);
  EXPECT_EQ(schedule_.status.started, 2);
  EXPECT_EQ(schedule_.status.skipped, 2) << "those of 01:00 and 03:00";
}

TEST_F(DecideScheduleTest, ARunThatNoStatusTellsOfIsCountedWhileSuspended) {
  Decide(kMidnight + 1min);
  runs_.push_back({.name = "s-20241101-010000"});
  schedule_.suspend = true;
  Decide(kMidnight + 2h);
  EXPECT_EQ(schedule_.status.started, 1);
  EXPECT_EQ(schedule_.status.skipped, 0);
}

TEST_F(DecideScheduleTest, ARunThatIsTooLateIsSkipped) {
  schedule_.starting_deadline = 5min;
  EXPECT_FALSE(Decide(kMidnight + 1h + 6min).due);
  EXPECT_EQ(SkipReason(), "MissedDeadline");
  EXPECT_EQ(schedule_.status.skipped, 1);
  EXPECT_TRUE(Decide(kMidnight + 2h + 5min).due);
}

TEST_F(DecideScheduleTest, WhatWouldHaveBeenDueDuringASuspensionIsNotMadeUpFor) {
  Decide(kMidnight + 1min);
  schedule_.suspend = true;
  Decide(kMidnight + 2min);
  EXPECT_FALSE(Decide(kMidnight + 3h + 1s).due);
  EXPECT_EQ(schedule_.status.next_schedule, std::nullopt);
  const ScheduleStatus before = schedule_.status;
  Decide(kMidnight + 4h);
  EXPECT_EQ(schedule_.status, before) << "a suspended schedule is not written again and again";
  schedule_.suspend = false;
  EXPECT_FALSE(Decide(kMidnight + 4h + 1min).due);
  EXPECT_EQ(schedule_.status.skipped, 0);
  EXPECT_TRUE(Decide(kMidnight + 5h).due);
}

TEST_F(DecideScheduleTest, AScheduleThatIsCreatedSuspendedBeginsWhenItIsResumed) {
  schedule_.suspend = true;
  Decide(kMidnight + 1min);
  schedule_.suspend = false;
  EXPECT_FALSE(Decide(kMidnight + 3h + 1min).due);
}

TEST_F(DecideScheduleTest, AnotherTimingCountsFromNow) {
  Decide(kMidnight + 1min);
  schedule_.timing.cron = "*/10 * * * *";
  EXPECT_FALSE(Decide(kMidnight + 35min).due);
  EXPECT_EQ(Decide(kMidnight + 40min).due->time, kMidnight + 40min);
  EXPECT_EQ(schedule_.status.skipped, 0);
}

TEST_F(DecideScheduleTest, AClockThatGoesBackRepeatsNothing) {
  Decide(kMidnight + 1h + 1s);
  EXPECT_FALSE(Decide(kMidnight + 30min).due);
  EXPECT_EQ(schedule_.status.next_schedule, kMidnight + 2h);
  EXPECT_FALSE(Decide(kMidnight + 1h + 1s).due);
}

TEST_F(DecideScheduleTest, AClockThatWasFarAheadDoesNotEndTheSchedule) {
  Decide(kMidnight + 1min);
  Decide(kMidnight + 24h * 365);
  End(0, kube::RunState::kSucceeded);
  const Decision back = Decide(kMidnight + 2h + 1min);
  EXPECT_TRUE(back.clock_went_back);
  EXPECT_FALSE(back.due);
  EXPECT_TRUE(Decide(kMidnight + 3h).due);
}

TEST_F(DecideScheduleTest, OldRunsAreRemovedByTheirKind) {
  Decide(kMidnight + 10min);
  schedule_.status.decided_until = kMidnight + 10min;
  for (int i = 0; i < 6; ++i)
    runs_.push_back(
        {.name = RunNameOf("s", kMidnight + i * 1min), .state = kube::RunState::kSucceeded});
  for (int i = 6; i < 8; ++i)
    runs_.push_back(
        {.name = RunNameOf("s", kMidnight + i * 1min), .state = kube::RunState::kFailed});
  runs_.push_back({.name = RunNameOf("s", kMidnight + 9min)});
  schedule_.keep_succeeded = 4;
  schedule_.keep_failed = 0;
  std::vector<std::string> removed;
  for (const kube::CreatedRun& run : Decide(kMidnight + 10min).remove) removed.push_back(run.name);
  EXPECT_THAT(removed, testing::UnorderedElementsAre("s-20241101-000000", "s-20241101-000100",
                                                     "s-20241101-000600", "s-20241101-000700"));
}

// Regression: the newest were those whose names are the last in the alphabet.
TEST_F(DecideScheduleTest, TheNewestAreKeptWhateverTheirNames) {
  Decide(kMidnight + 10min);
  schedule_.keep_succeeded = 1;
  runs_ = {{.name = "s-zzz", .state = kube::RunState::kSucceeded, .created = kMidnight},
           {.name = "s-aaa", .state = kube::RunState::kSucceeded, .created = kMidnight + 1min}};
  const Decision decision = Decide(kMidnight + 10min);
  ASSERT_THAT(decision.remove, SizeIs(1));
  EXPECT_EQ(decision.remove.front().name, "s-zzz");
}

// Regression: Ready was True and a next time was shown while every run was skipped.
TEST_F(DecideScheduleTest, AScheduleThatIsNotAdmittedSaysSoUntilItIs) {
  schedule_.not_admitted = "nobody knows who asks; delete it and create it again";
  EXPECT_TRUE(Decide(kMidnight + 1min).look_again);
  const kube::Condition ready = *kube::FindCondition(schedule_.status.conditions, "Ready");
  EXPECT_EQ(ready.status, kube::ConditionStatus::kFalse);
  EXPECT_EQ(ready.reason, kube::kNotAdmitted);
  EXPECT_THAT(ready.message, HasSubstr("delete it and create it again"));
  EXPECT_FALSE(schedule_.status.next_schedule);
  schedule_.not_admitted.clear();
  Decide(kMidnight + 2min);
  EXPECT_EQ(kube::FindCondition(schedule_.status.conditions, "Ready")->status,
            kube::ConditionStatus::kTrue);
  EXPECT_EQ(schedule_.status.next_schedule, kMidnight + 1h);
}

TEST_F(DecideScheduleTest, NothingIsRemovedBeforeItIsKnownWhatPoliciesKeep) {
  Decide(kMidnight + 10min);
  schedule_.suspend = true;
  schedule_.keep_succeeded = 0;
  runs_.push_back({.name = "s-20241101-000000", .state = kube::RunState::kSucceeded});
  bounds_.reset();
  const Decision unknown = Decide(kMidnight + 11min);
  EXPECT_THAT(unknown.remove, IsEmpty());
  EXPECT_EQ(unknown.look_again, 5s);
  bounds_ = policy::SeriesBounds{.counted = true};
  runs_.front().created = kMidnight;
  EXPECT_THAT(Decide(kMidnight + 24h - 1s).remove, IsEmpty()) << "a budget counts it";
  EXPECT_THAT(Decide(kMidnight + 24h).remove, SizeIs(1));
}

TEST_F(DecideScheduleTest, AnInvalidScheduleSaysSoAndStartsNothing) {
  schedule_.invalid = "spec.schedule: the minute \"61\" is not within 0 to 59";
  const Decision decision = Decide(kMidnight + 5h);
  EXPECT_FALSE(decision.due);
  EXPECT_FALSE(decision.look_again);
  const kube::Condition* ready = kube::FindCondition(schedule_.status.conditions, "Ready");
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->status, kube::ConditionStatus::kFalse);
  EXPECT_THAT(ready->message, HasSubstr("spec.schedule"));
}

TEST_F(DecideScheduleTest, TheTurnCountsTheRunsThatWereStarted) {
  schedule_.concurrency = ConcurrencyPolicy::kAllow;
  EXPECT_EQ(Decide(kMidnight + 1h).due->rotation, 0);
  Decide(kMidnight + 4h);
  EXPECT_EQ(Decide(kMidnight + 5h).due->rotation, 2);
}

}  // namespace
}  // namespace strobe::schedule
