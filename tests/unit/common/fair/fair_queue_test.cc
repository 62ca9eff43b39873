#include "common/fair/fair_queue.h"

#include <gmock/gmock.h>

#include <vector>

namespace strobe::fair {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

constexpr MonoTime kDueNow{1h};

std::vector<int> PopAll(FairQueue<int>& queue) {
  std::vector<int> all;
  while (const std::optional<int> next = queue.Pop(kDueNow)) all.push_back(*next);
  return all;
}

TEST(FairQueue, NamespacesTakeTurns) {
  FairQueue<int> queue(10);
  for (const int entry : {1, 2, 3}) EXPECT_TRUE(queue.Push("a", kDueNow, entry));
  EXPECT_EQ(queue.Pop(kDueNow), 1);
  queue.Push("b", kDueNow, 10);
  queue.Push("b", kDueNow, 11);
  queue.Push("c", kDueNow, 20);
  EXPECT_THAT(PopAll(queue), ElementsAre(10, 20, 2, 11, 3));
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueue, TheNamespaceThatHasMostLosesOneWhenItIsFull) {
  FairQueue<int> queue(3);
  for (const int entry : {1, 2, 3}) EXPECT_TRUE(queue.Push("noisy", kDueNow, entry));
  EXPECT_FALSE(queue.Push("noisy", kDueNow, 4)) << "itself";
  EXPECT_FALSE(queue.Push("quiet", kDueNow, 10)) << "the last of the other one";
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_THAT(PopAll(queue), ElementsAre(1, 10, 2));
}

TEST(FairQueue, WhatIsDueLaterHoldsUpNothing) {
  FairQueue<int> queue(10);
  EXPECT_EQ(queue.due(), std::nullopt);
  queue.Push("a", kDueNow + 2s, 1);
  queue.Push("a", kDueNow + 1s, 2);
  EXPECT_EQ(queue.due(), kDueNow + 1s);
  EXPECT_EQ(queue.Pop(kDueNow), std::nullopt);
  queue.Push("b", kDueNow, 10);
  EXPECT_EQ(queue.due(), kDueNow);
  EXPECT_EQ(queue.Pop(kDueNow), 10);
  EXPECT_EQ(queue.Pop(kDueNow + 2s), 2);
  EXPECT_EQ(queue.Pop(kDueNow + 2s), 1);
}

}  // namespace
}  // namespace strobe::fair
