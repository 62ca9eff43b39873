#include "common/http/slow_work.h"

#include <gmock/gmock.h>

#include <atomic>

namespace strobe::http {
namespace {

using testing::ElementsAre;

constexpr Nanos kLong = std::chrono::minutes(1);  // Lets a test that fails come to its end.

TEST(SlowWork, AskersTakeTurns) {
  Notification begun, go, done;
  SlowWork work({.threads = 1, .waiting = 100});
  std::vector<std::string> order;
  ASSERT_TRUE(work.Add("m", [&] {
    begun.Notify();
    go.Wait();
  }));
  begun.Wait();
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(work.Add("mallory", [&] { order.emplace_back("mallory"); }));
  ASSERT_TRUE(work.Add("bob", [&] { order.emplace_back("bob"); }));
  ASSERT_TRUE(work.Add("bob", [&] { order.emplace_back("bob"); }));
  ASSERT_TRUE(work.Add("zoe", [&] { order.emplace_back("zoe"); }));
  ASSERT_TRUE(work.Add("mallory", [&] { done.Notify(); }));
  go.Notify();
  EXPECT_TRUE(done.WaitFor(kLong));
  EXPECT_THAT(order, ElementsAre("mallory", "zoe", "bob", "mallory", "bob", "mallory"));
}

// Regression: requests of one user held all threads of the viewer.
TEST(SlowWork, OneAskerNeverHoldsAllThreads) {
  Notification go, answered;
  std::atomic<int> running{0};
  SlowWork work({.threads = 4, .each = 3, .waiting = 100});
  for (int i = 0; i < 64; ++i)
    ASSERT_TRUE(work.Add("mallory", [&] {
      ++running;
      go.Wait();
    }));
  while (running < 3) std::this_thread::yield();
  ASSERT_TRUE(work.Add("bob", [&] { answered.Notify(); }));
  EXPECT_TRUE(answered.WaitFor(kLong));
  EXPECT_EQ(running, 3);
  go.Notify();
}

TEST(SlowWork, ACrowdOfOneAskerIsRefusedAndAnotherIsTaken) {
  Notification begun, go;
  SlowWork work({.threads = 1, .waiting = 4, .waiting_each = 3});
  ASSERT_TRUE(work.Add("mallory", [&] {
    begun.Notify();
    go.Wait();
  }));
  begun.Wait();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(work.Add("mallory", [] {}));
  EXPECT_FALSE(work.Add("mallory", [] {}));
  EXPECT_TRUE(work.Add("bob", [] {}));
  EXPECT_FALSE(work.Add("bob", [] {})) << "four wait";
  EXPECT_TRUE(work.Add("zoe", [] {}));
  go.Notify();
}

TEST(SlowWork, ATaskThatThrowsGivesItsShareBack) {
  Notification answered;
  SlowWork work({.threads = 1, .each = 1, .waiting = 9});
  ASSERT_TRUE(work.Add("bob", [] { throw std::runtime_error("a defect"); }));
  ASSERT_TRUE(work.Add("bob", [&] { answered.Notify(); }));
  EXPECT_TRUE(answered.WaitFor(kLong));
}

}  // namespace
}  // namespace strobe::http
