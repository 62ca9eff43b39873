#include "sidecar/source/inproc/inproc_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/file_descriptor.h"

namespace strobe::source {
namespace {

Announcement Of(const std::string& framework, const std::string& container,
                const std::string& address = "") {
  Announcement process;
  process.framework = framework;
  process.container = container;
  process.address = address;
  return process;
}

std::vector<std::string> Frameworks(const v1::CapturePlan& plan, std::vector<Announcement> all) {
  std::vector<std::string> frameworks;
  for (const Announcement& process : InprocTargets(plan, std::move(all)))
    frameworks.push_back(process.framework);
  return frameworks;
}

TEST(InprocTargets, LeavesServersToTheirClient) {
  v1::CapturePlan plan;
  const std::vector<Announcement> all = {Of("torch", ""), Of("jax", ""),
                                         Of("tensorflow", "", "127.0.0.1:7")};
  EXPECT_THAT(Frameworks(plan, all), testing::ElementsAre("torch", "jax"));
  plan.set_container("trainer");
  EXPECT_THAT(Frameworks(plan, {Of("tensorflow", "trainer", "127.0.0.1:7")}),
              testing::ElementsAre("tensorflow"))
      << "then no server is asked";
}

TEST(InprocTargets, OnlyTheContainerAndOnlyWhoTrains) {
  v1::CapturePlan plan;
  plan.set_container("trainer");
  Announcement launcher = Of("torch", "trainer");
  launcher.trains = false;
  EXPECT_THAT(
      Frameworks(plan, {Of("torch", "trainer"), Of("jax", "other"), Of("jax", ""), launcher}),
      testing::ElementsAre("torch"));
}

TEST(InprocTargets, KernelsOfPyTorchAreLeftToTheAgentWhereItMayHaveThem) {
  Announcement yields = Of("torch", "");
  yields.yields_cupti = true;
  yields.asks_kineto = false;
  v1::CapturePlan plan;
  const auto left = [&] { return LeftToAgent(plan, yields) && Frameworks(plan, {yields}).empty(); };
  EXPECT_FALSE(left());
  plan.mutable_tracers()->set_device(2);
  EXPECT_TRUE(left());
  EXPECT_FALSE(LeftToAgent(plan, Of("torch", ""))) << "Kineto has recorded, or there is no agent";
  EXPECT_FALSE(LeftToAgent(plan, Of("jax", "")));
  yields.asks_kineto = true;
  EXPECT_FALSE(left()) << "a daemon's recording may have CUPTI";
  yields.asks_kineto = false;
  plan.mutable_tracers()->set_memory(true);
  EXPECT_FALSE(left()) << "only PyTorch's profiler records allocations";
  plan.mutable_tracers()->set_memory(false);
  plan.set_steps(3);
  EXPECT_FALSE(left()) << "the process itself begins at a step";
  plan.set_steps(0);
  plan.set_source(v1::SOURCE_FRAMEWORK);
  EXPECT_FALSE(left());
  plan.set_source(v1::SOURCE_AUTO);
  plan.mutable_tracers()->set_device(3);
  EXPECT_FALSE(left());
}

TEST(LeadOf, CuptiIsPreparedEarlierWherePyTorchRecordsIt) {
  Announcement process = Of("torch", "");
  process.pid = 7;
  process.began = 99;
  const Nanos usual = LeadOf({process}, {});
  EXPECT_EQ(LeadOf({}, {"7-99"}), usual);
  EXPECT_EQ(LeadOf({process}, {"7-98"}), usual) << "another process had its ID";
  EXPECT_EQ(LeadOf({process}, {"7-99"}), usual + std::chrono::seconds(2));
  Announcement launcher = process;
  launcher.trains = false;
  EXPECT_EQ(LeadOf({launcher}, {"7-99"}), usual);
  process.framework = "jax";
  EXPECT_EQ(LeadOf({process}, {"7-99"}), usual)
      << "its server, or the agent, has a lead of its own";
}

TEST(PlanFor, OnlyTellersBeginAtTheStep) {
  v1::CapturePlan plan;
  plan.set_steps(5);
  plan.add_step_tellers("7.sock");
  Announcement teller = Of("torch", ""), other = Of("jax", "");
  teller.socket = "7.sock";
  other.socket = "8.sock";
  EXPECT_EQ(PlanFor(teller, plan).steps(), 5u);
  EXPECT_EQ(PlanFor(other, plan).steps(), 0u);
}

class InprocSourceTest : public testing::Test {
 protected:
  InprocSourceTest() : directory_(mkdtemp(name_.data())) {
    const std::string path = directory_ + "/trainer@42-777.process";
    std::ofstream(path) << R"({"format": 1, "pid": 42, "began": 777, "framework": "torch",
                               "program": "t.py", "socket": "42-777.sock"})";
    locked_ = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(flock(locked_.get(), LOCK_EX | LOCK_NB), 0);
  }
  ~InprocSourceTest() override { std::filesystem::remove_all(directory_); }
  // The rows of a capture. Nobody answers on the socket of the process that announced itself.
  std::vector<v1::ProcessReport> Rows(const v1::CapturePlan& plan) {
    const Cancellation never;
    int collecting = 0;
    const auto recordings = source_.Record(plan, never, never, [&] { ++collecting; });
    EXPECT_EQ(collecting, 1);
    EXPECT_EQ(recordings.size(), 1u);
    EXPECT_EQ(recordings.front().outcome, Outcome::kNoSource);
    return recordings.front().processes;
  }

  std::string name_ = "/tmp/strobe-inproc-XXXXXX";
  const std::string directory_;
  FileDescriptor locked_{};
  const SystemClock clock_{};
  InprocSource source_{clock_, directory_, false};
};

TEST_F(InprocSourceTest, WhatIsLeftToKinetoHasNoRow) {
  const v1::CapturePlan all;
  EXPECT_EQ(source_.Probe(Nanos{0}).size(), 1u);
  ASSERT_EQ(Rows(all).size(), 1u);
  EXPECT_EQ(Rows(all)[0].name(), "t.py 42");
  source_.ShareWithKineto([](const auto&) { return std::vector<Announcement>(); });
  EXPECT_TRUE(source_.Probe(Nanos{0}).empty());
  EXPECT_TRUE(Rows(all).empty());
  v1::CapturePlan contained;
  contained.set_container("trainer");
  EXPECT_EQ(Rows(contained).size(), 1u) << "such a capture does not ask Kineto's daemon";
}

}  // namespace
}  // namespace strobe::source
