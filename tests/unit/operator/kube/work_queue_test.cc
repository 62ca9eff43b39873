#include "operator/kube/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/base/strings.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::kube {
namespace {

using namespace std::chrono_literals;

TEST(WorkQueue, AKeyIsQueuedOnce) {
  const SystemClock clock;
  WorkQueue queue(clock);
  queue.Add("a");
  queue.Add("a");
  queue.Add("b");
  EXPECT_EQ(queue.load().waiting, 2u);
  EXPECT_EQ(queue.Get(), "a");
}

TEST(WorkQueue, AKeyAddedWhileItRunsComesAgainWhenDone) {
  const SystemClock clock;
  WorkQueue queue(clock);
  queue.Add("a");
  ASSERT_EQ(queue.Get(), "a");
  queue.Add("a");
  EXPECT_EQ(queue.load().waiting, 0u);
  queue.Done("a");
  EXPECT_EQ(queue.Get(), "a");
}

TEST(WorkQueue, SaysWhatHappens) {
  struct Counts final : QueueObserver {
    void Added() override { ++added; }
    void Started(Nanos waited) override { waits.push_back(waited); }
    void Finished(Nanos took) override { works.push_back(took); }
    void Retried() override { ++retried; }
    int added = 0, retried = 0;
    std::vector<Nanos> waits, works;
  } counts;
  SimulatedTime time;
  WorkQueue queue(time, &counts);
  queue.Add("a");
  queue.Add("a");
  EXPECT_EQ(counts.added, 1);
  time.Advance(2s);
  ASSERT_EQ(queue.Get(), "a");
  time.Advance(3s);
  EXPECT_EQ(queue.load().running, 1u);
  EXPECT_EQ(queue.load().longest, 3s);
  queue.AddRateLimited("a");
  queue.Done("a");
  EXPECT_EQ(queue.load().running, 0u);
  EXPECT_EQ(counts.retried, 1);
  EXPECT_EQ(counts.waits, std::vector<Nanos>{2s});
  EXPECT_EQ(counts.works, std::vector<Nanos>{3s});
}

TEST(WorkQueue, AKeyThatFailsForLongIsTriedTwiceAMinute) {
  SimulatedTime time;
  WorkQueue queue(time);
  for (int i = 0; i < 40; ++i) {
    queue.AddRateLimited("a");
    time.Advance(30s);
    ASSERT_EQ(queue.Get(), "a") << i;
    queue.Done("a");
  }
}

TEST(WorkQueue, LaterComesLater) {
  const SystemClock clock;
  WorkQueue queue(clock);
  queue.AddAfter("b", 30ms);
  queue.AddAfter("a", 1ms);
  EXPECT_EQ(queue.Get(), "a");
  EXPECT_EQ(queue.Get(), "b");
}

TEST(WorkQueue, ShutDownReleasesEveryone) {
  const SystemClock clock;
  WorkQueue queue(clock);
  std::thread waiting([&] { EXPECT_EQ(queue.Get(), std::nullopt); });
  queue.ShutDown();
  waiting.join();
  queue.Add("a");
  EXPECT_EQ(queue.Get(), std::nullopt);
}

TEST(WorkQueue, AKeyHasOneTimerTheEarliest) {
  SimulatedTime time;
  WorkQueue queue(time);
  for (int i = 60; i > 0; --i) queue.AddAfter("a", std::chrono::seconds(i));
  queue.AddAfter("a", 30s);
  queue.AddAfter("b", 2s);
  time.Advance(1s);
  ASSERT_EQ(queue.Get(), "a");
  queue.Done("a");
  time.Advance(100s);
  ASSERT_EQ(queue.Get(), "b");
  queue.Done("b");
  EXPECT_EQ(queue.load().waiting, 0u) << "the other timers went with the first";
}

// 1,000 requests in one namespace must not delay a single request in another.
TEST(WorkQueue, NamespacesTakeTurns) {
  SimulatedTime time;
  WorkQueue queue(time);
  for (int i = 0; i < 1000; ++i) queue.Add("crowd/" + std::to_string(i));
  queue.Add("lone/a");
  EXPECT_EQ(queue.Get(), "crowd/0");
  EXPECT_EQ(queue.Get(), "lone/a");
  EXPECT_EQ(queue.Get(), "crowd/1") << "and in a namespace the order stays";
}

// Regression: eight requests of one namespace whose looks took seconds held all eight threads.
TEST(WorkQueue, ANamespaceHasAtMostAsManyThreadsAsAreFree) {
  SimulatedTime time;
  WorkQueue queue(time);
  queue.ShareAmong(8);
  for (int i = 0; i < 10; ++i) queue.Add("crowd/" + std::to_string(i));
  for (int i = 0; i < 4; ++i) ASSERT_EQ(queue.Get(), "crowd/" + std::to_string(i));
  queue.Add("lone/a");
  EXPECT_EQ(queue.Get(), "lone/a") << "the crowd has its share";
  std::thread fifth([&] { EXPECT_EQ(queue.Get(), "crowd/4"); });
  queue.Done("lone/a");
  queue.Done("crowd/0");
  fifth.join();
}

TEST(WorkQueue, AThreadIsLeftForANamespaceThatHasNone) {
  SimulatedTime time;
  WorkQueue queue(time);
  queue.ShareAmong(4);
  std::vector<std::string> taken;
  for (const char* ns : {"a", "b", "c"}) {
    for (int i = 0; i < 5; ++i) queue.Add(StrCat(ns, "/", i));
  }
  for (int i = 0; i < 3; ++i) taken.push_back(*queue.Get());
  EXPECT_EQ(taken, (std::vector<std::string>{"a/0", "b/0", "c/0"}));
  queue.Add("d/0");
  EXPECT_EQ(queue.Get(), "d/0");
  for (const std::string& key : taken) queue.Done(key);
  queue.Done("d/0");
  EXPECT_EQ(queue.Get(), "a/1");
}

// Between two runs of one namespace, every other waiting namespace has had a run.
TEST(WorkQueue, IsFairByNamespaceWhateverIsAdded) {
  SimulatedTime time;
  std::mt19937 random(7);
  WorkQueue queue(time);
  std::map<std::string, int> waiting;  // Keys by namespace.
  // By waiting namespace: the others that ran since it began to wait.
  std::map<std::string, std::set<std::string>> since;
  std::set<std::string> queued;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 3 != 0 || queued.empty()) {
      // Some namespaces have much more to do than others.
      const std::string ns = std::to_string(random() % (1 + random() % 10));
      const std::string key = ns + "/" + std::to_string(random() % 50);
      queue.Add(key);
      if (queued.insert(key).second && waiting[ns]++ == 0) since[ns].clear();
      continue;
    }
    const std::string key = *queue.Get();
    queue.Done(key);
    queued.erase(key);
    const std::string ns = key.substr(0, key.find('/'));
    for (auto& [other, ran] : since) {
      if (other == ns || waiting[other] == 0) continue;
      EXPECT_TRUE(ran.insert(ns).second) << ns << " ran twice while " << other << " waited";
    }
    since[ns].clear();
    --waiting[ns];
  }
}

// Checks with many threads the guarantee that the reconcilers rely on.
TEST(WorkQueue, NeverRunsAKeyTwiceAtOnceAndLosesNone) {
  const SystemClock clock;
  WorkQueue queue(clock);
  constexpr int kKeys = 5, kAdds = 2000;
  std::vector<std::atomic<int>> running(kKeys), wanted(kKeys), seen(kKeys);
  std::vector<std::thread> workers, adders;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&] {
      while (const auto key = queue.Get()) {
        const auto k = static_cast<std::size_t>(std::stoi(*key));
        ASSERT_EQ(running[k].fetch_add(1), 0);
        seen[k] = wanted[k].load();
        running[k].fetch_sub(1);
        queue.Done(*key);
      }
    });
  }
  for (unsigned i = 0; i < 3; ++i) {
    adders.emplace_back([&, i] {
      std::mt19937 random(i);
      for (int n = 0; n < kAdds; ++n) {
        const std::size_t k = random() % kKeys;
        ++wanted[k];
        if (n % 7 == 0)
          queue.AddAfter(std::to_string(k), 100us);
        else
          queue.Add(std::to_string(k));
      }
    });
  }
  for (std::thread& thread : adders) thread.join();
  const MonoTime deadline = clock.MonoNow() + 20s;
  const auto settled = [&] {
    for (std::size_t k = 0; k < kKeys; ++k) {
      if (seen[k] != wanted[k]) return false;
    }
    return true;
  };
  while (!settled() && clock.MonoNow() < deadline) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(settled()) << "the last addition of a key must be followed by a run";
  queue.ShutDown();
  for (std::thread& thread : workers) thread.join();
}

}  // namespace
}  // namespace strobe::kube
