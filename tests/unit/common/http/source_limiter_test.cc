#include "common/http/source_limiter.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/fakes/simulated_time.h"

namespace strobe::http {
namespace {

using namespace std::chrono_literals;

TEST(SourceLimiter, GivesEachAddressItsRate) {
  SimulatedTime time;
  SourceLimiter limiter(time, {.per_second = 2, .burst = 3});
  int answered = 0;
  for (int i = 0; i < 10; ++i) answered += limiter.Enter("a") != nullptr;
  EXPECT_EQ(answered, 3);
  EXPECT_NE(limiter.Enter("b"), nullptr) << "one address does not use up another's";
  time.Advance(1s);
  for (int i = 0; i < 10; ++i) answered += limiter.Enter("a") != nullptr;
  EXPECT_EQ(answered, 5);
}

TEST(SourceLimiter, BoundsWhatRunsAtOnce) {
  SimulatedTime time;
  SourceLimiter limiter(time, {.at_once = 2});
  std::vector<std::shared_ptr<void>> held = {limiter.Enter("a"), limiter.Enter("a")};
  EXPECT_EQ(limiter.Enter("a"), nullptr);
  held.push_back(limiter.Enter("b"));
  EXPECT_NE(held.back(), nullptr);
  held.clear();
  EXPECT_NE(limiter.Enter("a"), nullptr);
}

// Regression: one address held all turns while the API server was slow.
TEST(SourceLimiter, AFewAddressesLeaveRoomForAnother) {
  SimulatedTime time;
  SourceLimiter limiter(time, {.at_once = 8, .all_at_once = 8});
  std::vector<std::shared_ptr<void>> held;
  const auto enters = [&](const std::string& address) {
    int entered = 0;
    while (std::shared_ptr<void> one = limiter.Enter(address)) {
      held.push_back(std::move(one));
      ++entered;
    }
    return entered;
  };
  EXPECT_EQ(enters("a"), 4);
  EXPECT_EQ(enters("b"), 2);
  EXPECT_EQ(enters("c"), 1);
  EXPECT_EQ(enters("d"), 1);
  EXPECT_EQ(enters("e"), 0);
  EXPECT_EQ(limiter.EnterKnown(), nullptr);
  held.clear();
  for (int i = 0; i < 8; ++i) held.push_back(limiter.EnterKnown());
  EXPECT_NE(held.back(), nullptr) << "one that is known may have all";
  EXPECT_EQ(limiter.Enter("a"), nullptr);
}

// All namespaces' objects come from the API server, whose certificate is known.
TEST(SourceLimiter, ANamespaceOfAKnownClientLeavesOneForAnother) {
  SimulatedTime time;
  SourceLimiter limiter(time, {.at_once = 8, .all_at_once = 8});
  std::vector<std::shared_ptr<void>> held;
  const auto enters = [&](const std::string& ns) {
    int entered = 0;
    while (std::shared_ptr<void> one = limiter.EnterKnown(ns)) {
      held.push_back(std::move(one));
      ++entered;
    }
    return entered;
  };
  EXPECT_EQ(enters("noisy"), 4);
  EXPECT_EQ(enters("quiet"), 2);
  EXPECT_EQ(enters("noisy"), 0);
  held.clear();
  EXPECT_EQ(enters("quiet"), 4) << "whoever leaves makes room";
}

// One machine may use all addresses of its network.
TEST(SourceLimiter, AnIpv6NetworkCountsAsOneAddress) {
  SimulatedTime time;
  SourceLimiter limiter(time, {.at_once = 1});
  const std::shared_ptr<void> held = limiter.Enter("2001:db8:0:1::1");
  EXPECT_EQ(limiter.Enter("2001:db8:0:1:ffff::2"), nullptr);
  EXPECT_NE(limiter.Enter("2001:db8:0:2::1"), nullptr);
  EXPECT_NE(limiter.Enter("10.0.0.1"), nullptr);
}

TEST(SourceLimiter, RemembersABoundedNumberOfAddresses) {
  SimulatedTime time;
  SourceLimiter limiter(time, {.per_second = 0.001, .burst = 1, .sources = 10});
  const std::shared_ptr<void> held = limiter.Enter("busy");
  for (int i = 0; i < 1000; ++i) {
    time.Advance(1ms);
    EXPECT_NE(limiter.Enter(std::to_string(i)), nullptr);
  }
  EXPECT_EQ(limiter.Enter("busy"), nullptr) << "one at work is not forgotten";
}

}  // namespace
}  // namespace strobe::http
