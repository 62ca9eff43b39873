#include "common/base/mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace strobe {
namespace {

using namespace std::chrono_literals;

TEST(Mutex, WakesWaitersWhenTheirConditionComesTrue) {
  Mutex mutex;
  int value = 0;
  std::vector<std::thread> waiters;
  for (int want = 1; want <= 3; ++want) {
    waiters.emplace_back([&, want] {
      MutexLock lock(&mutex);
      mutex.Await([&] { return value >= want; });
      EXPECT_GE(value, want);
    });
  }
  for (int i = 0; i < 3; ++i) {
    MutexLock lock(&mutex);
    ++value;
  }
  for (std::thread& waiter : waiters) waiter.join();
}

TEST(Mutex, GivesUpInTimeAndStillHoldsIt) {
  Mutex mutex;
  MutexLock lock(&mutex);
  EXPECT_FALSE(mutex.AwaitFor(5ms, [] { return false; }));
  EXPECT_TRUE(mutex.AwaitFor(5ms, [] { return true; }));
}

TEST(Notification, IsSetOnceForAll) {
  Notification notification;
  EXPECT_FALSE(notification.is_set());
  EXPECT_FALSE(notification.WaitFor(1ms));
  std::thread setter([&] { notification.Notify(); });
  notification.Wait();
  EXPECT_TRUE(notification.WaitFor(1h));
  setter.join();
  notification.Notify();
}

}  // namespace
}  // namespace strobe
