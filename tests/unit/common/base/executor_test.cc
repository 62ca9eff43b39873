#include "common/base/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace strobe {
namespace {

using namespace std::chrono_literals;

TEST(ThreadExecutor, RunsInTheOrderOfPostingAndOfTime) {
  ThreadExecutor executor;
  std::vector<int> order;
  Notification done;
  executor.Post([&] {
    executor.PostAfter(2ms, [&] { order.push_back(3), done.Notify(); });
    executor.PostAfter(1ms, [&] { order.push_back(2); });
    executor.Post([&] { order.push_back(1); });
    order.push_back(0);
  });
  done.Wait();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

TEST(ThreadExecutor, ManyThreadsMayPost) {
  ThreadExecutor executor;
  int count = 0;  // Accessed by the executor's thread only.
  Notification all;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i)
        executor.Post([&] {
          if (++count == 400) all.Notify();
        });
    });
  }
  for (std::thread& thread : threads) thread.join();
  all.Wait();
  Notification read;
  int seen = 0;
  executor.Post([&] { seen = count, read.Notify(); });
  read.Wait();
  EXPECT_EQ(seen, 400);
}

TEST(ThreadExecutor, DropsWhatIsStillWaitingWhenItEnds) {
  auto held = std::make_shared<int>(1);
  {
    ThreadExecutor executor;
    executor.PostAfter(1h, [held] {});
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(ThreadExecutor, ATaskThatThrowsEndsAlone) {
  ThreadExecutor executor;
  Notification after;
  executor.Post([] { throw std::runtime_error("thrown"); });
  executor.Post([&] { after.Notify(); });
  after.Wait();
}

}  // namespace
}  // namespace strobe
