#include "sidecar/source/inproc_source.h"

#include <gmock/gmock.h>

namespace strobe {
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
  for (const Announcement& process : ToRecord(plan, std::move(all)))
    frameworks.push_back(process.framework);
  return frameworks;
}

TEST(ToRecord, LeavesServersToTheirClient) {
  v1::CapturePlan plan;
  const std::vector<Announcement> all = {Of("torch", ""), Of("jax", ""),
                                         Of("tensorflow", "", "127.0.0.1:7")};
  EXPECT_THAT(Frameworks(plan, all), testing::ElementsAre("torch", "jax"));
  plan.set_container("trainer");
  EXPECT_THAT(Frameworks(plan, {Of("tensorflow", "trainer", "127.0.0.1:7")}),
              testing::ElementsAre("tensorflow"))
      << "then no server is asked";
}

TEST(ToRecord, OnlyTheContainerAndOnlyWhoTrains) {
  v1::CapturePlan plan;
  plan.set_container("trainer");
  Announcement launcher = Of("torch", "trainer");
  launcher.trains = false;
  EXPECT_THAT(
      Frameworks(plan, {Of("torch", "trainer"), Of("jax", "other"), Of("jax", ""), launcher}),
      testing::ElementsAre("torch"));
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

}  // namespace
}  // namespace strobe
