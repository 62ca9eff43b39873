#include "sidecar/capture/session.h"

#include <gmock/gmock.h>

#include <limits>

namespace strobe::session {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr WallTime kNow{1'700'000'000s};

v1::CapturePlan Plan(const std::string& id, Nanos lead = 1s) {
  v1::CapturePlan plan;
  plan.set_capture_id(id);
  plan.set_request("team/look");
  plan.set_instant_ns(ToUnixNanos(kNow + lead));
  plan.set_duration_ns(Nanos(1s).count());
  plan.set_guard_ns(Nanos(5ms).count());
  plan.set_logdir("/logs");
  plan.set_run("run");
  plan.set_worker("w0");
  plan.set_deadline_ns(ToUnixNanos(kNow + lead + 60s));
  return plan;
}

void Finish(Session& session, const std::string& id, Nanos late = 0s) {
  v1::Report report = *session.Find(id);
  report.set_state(v1::DONE);
  report.set_started_ns(report.plan().instant_ns() - report.plan().guard_ns() + late.count());
  session.Update(report);
}

TEST(Session, ArmsOnceAndAnswersTheSameEverAfter) {
  Session session;
  EXPECT_TRUE(session.Arm(Plan("a"), kNow).fresh);
  const ArmDecision again = session.Arm(Plan("a"), kNow);
  EXPECT_TRUE(again.accepted);
  EXPECT_FALSE(again.fresh);
  Finish(session, "a");
  EXPECT_FALSE(session.Arm(Plan("a"), kNow).fresh)
      << "a capture that is done is not recorded again";
}

TEST(Session, NamesTheHolderWhenBusy) {
  Session session;
  session.Arm(Plan("a"), kNow);
  const ArmDecision second = session.Arm(Plan("b"), kNow);
  EXPECT_EQ(second.refusal, Outcome::kBusy);
  EXPECT_THAT(second.message, HasSubstr("capture a of team/look"));
  EXPECT_EQ(session.holder(), "a");
  Finish(session, "a");
  EXPECT_TRUE(session.Arm(Plan("b"), kNow).fresh);
}

TEST(Session, RefusesInstantsThatAreTooCloseOrTooFar) {
  Session session;
  EXPECT_EQ(session.Arm(Plan("a", 24ms), kNow).refusal, Outcome::kLateStart) << "the guard counts";
  EXPECT_EQ(session.Arm(Plan("a", -1h), kNow).refusal, Outcome::kLateStart);
  EXPECT_THAT(session.Arm(Plan("a", 2h), kNow).message, HasSubstr("clocks"));
  EXPECT_TRUE(session.Arm(Plan("a", 26ms), kNow).accepted);
}

// Regression: an Arm that the operator had given up was carried out after its Cancel.
TEST(Session, RefusesACaptureThatWasCancelledBeforeItWasArmed) {
  Session session;
  session.Forbid("a");
  EXPECT_EQ(session.Arm(Plan("a"), kNow).refusal, Outcome::kCancelled);
  EXPECT_EQ(session.holder(), "");
  EXPECT_TRUE(session.Arm(Plan("b"), kNow).fresh);
  session.Forbid("b");
  EXPECT_TRUE(session.Arm(Plan("b"), kNow).accepted) << "it was armed before";
  Finish(session, "b");
  for (std::size_t i = 0; i < kRemembered; ++i) session.Forbid("c" + std::to_string(i));
  EXPECT_TRUE(session.Arm(Plan("a"), kNow).fresh) << "a bounded number is remembered";
}

TEST(Session, ACancelThatIsRepeatedPushesNoOtherOut) {
  Session session;
  session.Forbid("a");
  for (std::size_t i = 0; i < kRemembered; ++i) session.Forbid("b");
  EXPECT_EQ(session.Arm(Plan("a"), kNow).refusal, Outcome::kCancelled);
  EXPECT_EQ(session.Arm(Plan("b"), kNow).refusal, Outcome::kCancelled);
}

// Regression: a caller could make a sidecar keep dozens of ids, each of megabytes.
TEST(Session, RemembersNoIdThatNoPlanCanHave) {
  Session session;
  const std::string huge(1 << 20, 'x');
  session.Forbid(huge);
  EXPECT_TRUE(session.Arm(Plan(huge), kNow).fresh);
}

TEST(Session, StatesNeverGoBack) {
  Session session;
  session.Arm(Plan("a"), kNow);
  v1::Report report = *session.Find("a");
  report.set_state(v1::COLLECTING);
  session.Update(report);
  report.set_state(v1::RECORDING);
  session.Update(report);
  EXPECT_EQ(session.Find("a")->state(), v1::COLLECTING);
  Finish(session, "a");
  report.set_state(v1::UPLOADING);
  session.Update(report);
  EXPECT_EQ(session.Find("a")->state(), v1::DONE);
}

TEST(Session, RemembersABoundedNumberOfReports) {
  Session session;
  for (std::size_t i = 0; i < kRemembered + 5; ++i) {
    const std::string id = "c" + std::to_string(i);
    ASSERT_TRUE(session.Arm(Plan(id), kNow).fresh);
    Finish(session, id);
  }
  EXPECT_EQ(session.Find("c0"), nullptr);
  EXPECT_NE(session.Find("c68"), nullptr);
}

TEST(Session, KnowsItsWorstLateness) {
  Session session;
  EXPECT_EQ(session.WorstLateness(), 0s);
  session.Arm(Plan("a"), kNow);
  Finish(session, "a", 3ms);
  session.Arm(Plan("b"), kNow);
  Finish(session, "b", -1ms);
  EXPECT_EQ(session.WorstLateness(), 3ms);
}

TEST(CheckPlan, NamesTheFieldThatIsWrong) {
  EXPECT_TRUE(CheckPlan(Plan("a")).ok());
  const auto complaint = [](auto change) {
    v1::CapturePlan plan = Plan("a");
    change(plan);
    return std::string(CheckPlan(plan).message());
  };
  EXPECT_THAT(complaint([](auto& p) { p.set_capture_id("../x"); }), HasSubstr("capture_id"));
  EXPECT_THAT(complaint([](auto& p) { p.set_run("a/b"); }), HasSubstr("run"));
  EXPECT_THAT(complaint([](auto& p) { p.set_worker(""); }), HasSubstr("worker"));
  EXPECT_THAT(complaint([](auto& p) { p.set_duration_ns(0); }), HasSubstr("duration"));
  EXPECT_THAT(complaint([](auto& p) { p.set_duration_ns(Nanos(11min).count()); }),
              HasSubstr("10m"));
  EXPECT_THAT(complaint([](auto& p) { p.set_guard_ns(-1); }), HasSubstr("guard"));
  EXPECT_THAT(complaint([](auto& p) { p.set_logdir("logs"); }), HasSubstr("logdir"));
  EXPECT_THAT(complaint([](auto& p) { p.set_deadline_ns(0); }), HasSubstr("deadline"));
  constexpr std::int64_t kMaxNs = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(complaint([](auto& p) { p.set_instant_ns(kMaxNs); }), HasSubstr("instant"));
  EXPECT_THAT(complaint([](auto& p) { p.set_instant_ns(-kMaxNs); }), HasSubstr("instant"));
  EXPECT_THAT(complaint([](auto& p) { p.set_deadline_ns(kMaxNs); }), HasSubstr("deadline is not"));
}

TEST(TooLarge, ByTheRequestAndByWhatXProfCanRead) {
  v1::CapturePlan plan;
  EXPECT_EQ(TooLarge(plan, kMaxTrace), "");
  EXPECT_THAT(TooLarge(plan, kMaxTrace + 1), testing::HasSubstr("2 GiB"));
  plan.set_max_bytes(10);
  EXPECT_EQ(TooLarge(plan, 10), "");
  EXPECT_EQ(TooLarge(plan, 11), "the trace has 11 bytes; the limit is 10");
}

}  // namespace
}  // namespace strobe::session
