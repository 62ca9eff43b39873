#include "agent/evidence/thread_facts.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace strobe::agent {
namespace {

TEST(ThreadFacts, ReadTheFieldsBehindAnyName) {
  EXPECT_EQ(StateIn("7 (a) b (S) S 1 7 7 0 -1"), 'S');
  EXPECT_EQ(StateIn(""), '?');
}

TEST(ThreadFacts, TellAThreadThatSleepsFromOneThatRuns) {
  const auto own = static_cast<std::uint64_t>(syscall(SYS_gettid));
  EXPECT_EQ(AsleepText(own), "") << "this thread runs";
  std::atomic<std::uint64_t> tid{0};
  std::atomic<bool> ends{false};
  std::thread sleeper([&] {
    pthread_setname_np(pthread_self(), "sleeper x");
    tid = static_cast<std::uint64_t>(syscall(SYS_gettid));
    ends.wait(false);
  });
  while (tid == 0) std::this_thread::yield();
  std::string asleep;
  for (int i = 0; i < 10'000 && asleep.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    asleep = AsleepText(tid);
  }
  EXPECT_NE(asleep, "");
  EXPECT_EQ(AsleepText(tid), asleep) << "it has not run meanwhile";
  EXPECT_EQ(FactsOf(tid).state, 'S');
  EXPECT_EQ(FactsOf(tid).name, "sleeper x");
  ends = true;
  ends.notify_all();
  sleeper.join();
}

TEST(ThreadFacts, ProveNothingWhereTheKernelCountsNothing) {
  EXPECT_EQ(AsleepIn("7 (a) S 1", "12 3 4"), "12 3 4");
  EXPECT_EQ(AsleepIn("7 (a) R 1", "12 3 4"), "");
  EXPECT_EQ(AsleepIn("7 (a) S 1", "0 0 0"), "");
}

TEST(ThreadFacts, AreUnknownOfNoThread) {
  EXPECT_EQ(AsleepText(0), "");
  EXPECT_EQ(FactsOf(0).state, '?');
  EXPECT_EQ(FactsOf(4'000'000'000).name, "-");
}

}  // namespace
}  // namespace strobe::agent
