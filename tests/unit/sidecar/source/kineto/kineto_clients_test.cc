#include "sidecar/source/kineto/kineto_clients.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe::source {
namespace {

using namespace std::chrono_literals;
using Stage = KinetoDelivery::Stage;
using Held = KinetoDelivery::Held;

class KinetoClientsTest : public testing::Test {
 protected:
  // A question that arrives now. True if it is answered.
  bool Ask(const std::string& socket = "a", KinetoQuestion more = {.idle = true}) {
    more.socket = socket;
    if (more.pids.empty()) more.pids = {42, 7};
    const bool answered = clients_.Ask(more, now_, known_) != nullptr;
    if (answered) clients_.Sent(socket);
    return answered;
  }
  KinetoOrder Order(Nanos ahead) const {
    return {.path = "/d/x.json", .start = now_ + ahead, .duration = 500ms};
  }
  void Go(Nanos duration) {
    now_ += duration;
    clients_.Advance(now_);
  }
  KinetoDelivery DeliveryOf(const std::string& socket = "a") const {
    return *clients_.DeliveryOf(socket);
  }

  KinetoClients clients_;
  MonoTime now_{1h};
  bool known_ = false;
};

TEST_F(KinetoClientsTest, IsSilentWhenNothingIsDue) {
  for (int i = 0; i < 10; ++i, Go(1s)) EXPECT_FALSE(Ask());
  EXPECT_TRUE(clients_.Assign("a", Order(5s)));
  EXPECT_TRUE(Ask());
  for (int i = 0; i < 10; ++i, Go(1s)) EXPECT_FALSE(Ask()) << "an order is told once";
}

// The answer would be taken for the one to the next question, and from then on each would be.
TEST_F(KinetoClientsTest, DoesNotAnswerWhatIsOlderThan60Milliseconds) {
  Ask();
  clients_.Assign("a", Order(60s));
  EXPECT_FALSE(Ask("a", {.idle = true, .age = 61ms}));
  EXPECT_EQ(DeliveryOf().held, Held::kSeenLate);
  EXPECT_FALSE(Ask("a", {.idle = true, .age = -1ms})) << "the clock was set";
  EXPECT_FALSE(Ask("a", {.idle = true, .age = Nanos::max()})) << "nobody knows when it came";
  EXPECT_TRUE(Ask("a", {.idle = true, .age = 60ms})) << "it is told when it asks next";
}

TEST_F(KinetoClientsTest, DoesNotAnswerWhoHasNotReadItsLastAnswer) {
  Ask();
  clients_.Assign("a", Order(60s));
  EXPECT_FALSE(Ask("a", {.idle = true, .unread = true}));
  EXPECT_EQ(DeliveryOf().held, Held::kUnread);
  EXPECT_TRUE(Ask());
}

TEST_F(KinetoClientsTest, HoldsOrdersWhileTheProfilerIsInUse) {
  Ask();
  clients_.Assign("a", Order(10s));
  for (int i = 0; i < 5; ++i, Go(1s)) EXPECT_FALSE(Ask("a", {.idle = false}));
  EXPECT_EQ(DeliveryOf().held, Held::kInUse);
  EXPECT_TRUE(Ask());
}

// Kineto drops an order silently that is later than its start less warm-up less a second.
TEST_F(KinetoClientsTest, WithholdsWhatCouldNotBegin) {
  Ask();
  KinetoOrder order = Order(3s);
  order.warm_up = 1s;
  ASSERT_EQ(order.Ahead(), 2250ms);
  clients_.Assign("a", order);
  Go(749ms);
  EXPECT_EQ(DeliveryOf().stage, Stage::kWaiting);
  now_ += 2ms;
  EXPECT_FALSE(Ask());
  EXPECT_EQ(DeliveryOf().stage, Stage::kMissed);
  EXPECT_EQ(DeliveryOf().held, Held::kNotAsked);
  Go(1h);
  EXPECT_FALSE(Ask()) << "nor later";
}

TEST_F(KinetoClientsTest, MarksOrdersThatNobodyAskedFor) {
  Ask();
  clients_.Assign("a", Order(3s));
  Go(1700ms);
  EXPECT_EQ(DeliveryOf().stage, Stage::kWaiting);
  Go(100ms);
  EXPECT_EQ(DeliveryOf().stage, Stage::kMissed);
}

TEST_F(KinetoClientsTest, HasOneOrderPerProcess) {
  Ask();
  EXPECT_TRUE(clients_.Assign("a", Order(3s)));
  EXPECT_FALSE(clients_.Assign("a", Order(5s)));
  EXPECT_FALSE(clients_.Assign("nobody", Order(5s)));
}

TEST_F(KinetoClientsTest, AnOrderThatNobodyAwaitsIsCarriedOutAllTheSame) {
  Ask();
  clients_.Assign("a", Order(2s));
  EXPECT_TRUE(Ask());
  clients_.End("a",
               /*done=*/false);  // Cancelled. It records from 2 s to 2.5 s and writes until 5.5 s.
  EXPECT_TRUE(clients_.Assign("a", Order(60s)));
  Go(5400ms);
  EXPECT_FALSE(Ask());
  EXPECT_EQ(DeliveryOf().held, Held::kOccupied);
  Go(200ms);
  EXPECT_TRUE(Ask());
}

TEST_F(KinetoClientsTest, WhoWasNotToldOrHasFinishedIsFreeAtOnce) {
  Ask();
  clients_.Assign("a", Order(60s));
  clients_.End("a", false);
  clients_.Assign("a", Order(60s));
  EXPECT_TRUE(Ask());
  clients_.End("a", /*done=*/true);
  clients_.Assign("a", Order(60s));
  EXPECT_TRUE(Ask());
}

TEST_F(KinetoClientsTest, KnowsWhenAnAnswerWasRead) {
  Ask();
  clients_.Assign("a", Order(60s));
  EXPECT_FALSE(clients_.AnyUnread());
  clients_.Read("a", now_);
  EXPECT_EQ(DeliveryOf().stage, Stage::kWaiting) << "nothing was sent";
  Ask();
  EXPECT_TRUE(clients_.AnyUnread());
  Go(20ms);
  clients_.Read("a", now_);
  EXPECT_EQ(DeliveryOf().stage, Stage::kRead);
  EXPECT_EQ(DeliveryOf().read, now_);
  Go(20ms);
  clients_.Read("a", now_);
  EXPECT_EQ(DeliveryOf().read, now_ - 20ms) << "the first time counts";
  EXPECT_FALSE(clients_.AnyUnread());
}

TEST_F(KinetoClientsTest, ForgetsWhoMissedThreeQuestions) {
  for (int i = 0; i < 3; ++i, Go(1s)) Ask("fast");
  Ask("new");  // Asks every 5 s, for all that is known.
  Go(2900ms);
  EXPECT_EQ(clients_.clients().size(), 2u);
  Go(1s);
  EXPECT_FALSE(clients_.clients().contains("fast"));
  EXPECT_TRUE(clients_.clients().contains("new"));
  Go(13s);
  EXPECT_FALSE(clients_.clients().contains("new"));
}

TEST_F(KinetoClientsTest, KnowsHowOftenProcessesAsk) {
  Ask();
  EXPECT_EQ(clients_.clients().at("a").Interval(), 5s) << "Kineto's own";
  Go(1s);
  Ask();
  EXPECT_EQ(clients_.clients().at("a").Interval(), 1s);
  Go(1500ms);
  Ask("a", {.idle = true, .age = 50ms});
  EXPECT_EQ(clients_.clients().at("a").Interval(), 1450ms) << "by arrival, the longer of the last";
  Go(950ms);
  Ask();
  Go(1s);
  Ask();
  EXPECT_EQ(clients_.clients().at("a").Interval(), 1s);
  for (int i = 0; i < 3; ++i, now_ += 1ms) Ask();
  EXPECT_EQ(clients_.clients().at("a").Interval(), 500ms) << "whatever it does";
  for (int i = 0; i < 3; ++i, now_ += 1h) Ask();
  EXPECT_EQ(clients_.clients().at("a").Interval(), 30s) << "nobody waits for an hour";
}

TEST_F(KinetoClientsTest, IsBounded) {
  for (std::size_t i = 0; i < KinetoClients::kMaxClients; ++i) {
    Ask(StrCat("c", i));
    EXPECT_TRUE(known_);
  }
  Ask("one more");
  EXPECT_FALSE(known_);
  EXPECT_EQ(clients_.clients().size(), KinetoClients::kMaxClients);
  Ask("c0");
  EXPECT_TRUE(known_) << "who is known stays";
  Go(20s);
  Ask("one more");
  EXPECT_TRUE(known_) << "there is room again";
}

TEST_F(KinetoClientsTest, WhoEndsIsGoneAtOnce) {
  Ask();
  clients_.Assign("a", Order(60s));
  clients_.Forget("a");
  EXPECT_TRUE(clients_.clients().empty());
  EXPECT_TRUE(DeliveryOf().gone);
}

TEST(KinetoClient, IntervalsAreToldRounded) {
  EXPECT_EQ(KinetoClient::Words(999'700us), "1s");
  EXPECT_EQ(KinetoClient::Words(1'449ms), "1.4s");
}

// In two containers both processes may be process 1.
TEST(KinetoClient, ProcessesWithTheSameIdAreToldApart) {
  const KinetoClient client{.socket = "dynoconfigclient0123-456789ab", .pids = {1}};
  EXPECT_EQ(client.Label(false), "torch 1");
  EXPECT_EQ(client.Label(true), "torch 1 (456789ab)");
}

TEST(KinetoClient, LaunchersAreRelatedToWhatTheyStart) {
  const KinetoClient launcher{.pids = {10, 2}}, rank{.pids = {11, 10, 2}}, other{.pids = {12, 2}};
  EXPECT_TRUE(AreRelated(launcher, rank));
  EXPECT_TRUE(AreRelated(rank, launcher));
  EXPECT_FALSE(AreRelated(rank, other)) << "brothers";
  EXPECT_FALSE(AreRelated(launcher, other));
}

}  // namespace
}  // namespace strobe::source
