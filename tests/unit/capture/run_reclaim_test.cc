#include "capture/run_reclaim.h"

#include <gmock/gmock.h>

#include "tests/fakes/fake_worker.h"

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunReclaimTest : public testing::Test {
 protected:
  std::shared_ptr<RunReclaim> Start(int workers) {
    std::vector<Target> targets;
    for (int i = 0; i < workers; ++i) {
      Target target;
      target.name = target.pod = "p" + std::to_string(i);
      targets.push_back(target);
    }
    std::vector<v1::ReclaimRequest> runs(2);
    runs[0].set_run("run");
    runs[1].set_run("run_attempt2");
    return RunReclaim::Start({time_, time_, fleet_}, std::move(targets), std::move(runs),
                             [this] { ++done_; });
  }
  int Asked() {
    int asked = 0;
    for (int i = 0; i < 1000; ++i) asked += fleet_["p" + std::to_string(i)].checks;
    return asked;
  }
  std::vector<std::string> RunsOf(const std::string& name) {
    std::vector<std::string> runs;
    for (const v1::ReclaimRequest& reclaim : fleet_[name].reclaimed) runs.push_back(reclaim.run());
    return runs;
  }

  SimulatedTime time_;
  FakeFleet fleet_{time_};
  int done_ = 0;
};

TEST_F(RunReclaimTest, OneOfThemDeletesEachRun) {
  const auto reclaim = Start(3);
  time_.Advance(1s);
  ASSERT_TRUE(reclaim->result().has_value());
  EXPECT_TRUE(reclaim->result()->ok());
  EXPECT_EQ(done_, 1);
  std::vector<std::string> deleted;
  for (const char* name : {"p0", "p1", "p2"}) {
    for (const std::string& run : RunsOf(name)) deleted.push_back(run);
  }
  EXPECT_THAT(deleted, ElementsAre("run", "run_attempt2"));
}

// Regression: this took 2.8 hours and blocked one of eight threads.
TEST_F(RunReclaimTest, AThousandThatCannotBeReachedTakeAMinute) {
  for (int i = 0; i < 1000; ++i) fleet_["p" + std::to_string(i)].dead = true;
  const auto reclaim = Start(1000);
  for (int i = 0; i < 59; ++i) {
    time_.Advance(1s);
    EXPECT_LE(Asked(), static_cast<int>(RunReclaim::kMaxAsked) * (1 + i));
  }
  EXPECT_FALSE(reclaim->result().has_value());
  time_.Advance(1s);
  ASSERT_TRUE(reclaim->result().has_value());
  EXPECT_THAT(std::string(reclaim->result()->message()), HasSubstr("connection refused"));
  EXPECT_EQ(done_, 1);
  time_.Advance(60s);
  EXPECT_EQ(done_, 1);
}

TEST_F(RunReclaimTest, TheOneThatIsLeftIsFoundAmongMany) {
  for (int i = 0; i < 99; ++i) fleet_["p" + std::to_string(i)].dead = true;
  const auto reclaim = Start(100);
  time_.Advance(40s);
  ASSERT_TRUE(reclaim->result().has_value());
  EXPECT_TRUE(reclaim->result()->ok()) << *reclaim->result();
  EXPECT_THAT(RunsOf("p99"), ElementsAre("run", "run_attempt2"));
}

TEST_F(RunReclaimTest, WhatOneMayNotDeleteAnotherMay) {
  for (const char* name : {"p0", "p2"})
    fleet_[name].reclaim = absl::PermissionDeniedError("not mine");
  const auto reclaim = Start(3);
  time_.Advance(10s);
  EXPECT_TRUE(reclaim->result()->ok());
  fleet_["p1"].reclaim = absl::PermissionDeniedError("not mine");
  const auto again = Start(3);
  time_.Advance(10s);
  EXPECT_TRUE(absl::IsPermissionDenied(*again->result()));
}

TEST_F(RunReclaimTest, OneThatHangsIsNotWaitedForTooLong) {
  const auto reclaim = Start(1);
  time_.Advance(2ms);
  fleet_["p0"].dead = true;  // It had already answered the check.
  time_.Advance(RunReclaim::kTotalTimeout);
  ASSERT_TRUE(reclaim->result().has_value());
  EXPECT_FALSE(reclaim->result()->ok());
  EXPECT_EQ(done_, 1);
}

TEST_F(RunReclaimTest, NobodyLeft) {
  const auto reclaim = Start(0);
  time_.Advance(1ms);
  EXPECT_THAT(std::string(reclaim->result()->message()), HasSubstr("no sidecar"));
}

TEST_F(RunReclaimTest, DroppingItDropsWhatIsInFlight) {
  auto reclaim = Start(3);
  time_.RunUntilIdle();
  reclaim.reset();
  time_.Advance(70s);
  EXPECT_EQ(done_, 0);
  EXPECT_THAT(fleet_["p0"].reclaimed, IsEmpty());
}

}  // namespace
}  // namespace strobe::capture
