#include "collector/trace/digest/nesting.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <vector>

namespace strobe::digest {
namespace {

struct Span {
  std::int64_t begin = 0, end = 0;
};

std::vector<std::int64_t> SelfTimes(const std::vector<Span>& spans,
                                    const std::vector<std::uint32_t>& order) {
  std::vector<std::int64_t> self(spans.size());
  Nesting nesting;
  for (const std::uint32_t i : order)
    nesting.Add(spans[i].begin, spans[i].end, i,
                [&](std::uint32_t op, std::int64_t change) { self[op] += change; });
  return self;
}

// Makes a tree of spans between `begin` and `end`, and the self time of each.
void Grow(std::int64_t begin, std::int64_t end, int depth, std::mt19937& random,
          std::vector<Span>& spans, std::vector<std::int64_t>& self) {
  const std::size_t number = spans.size();
  spans.push_back({begin, end});
  self.push_back(end - begin);
  std::int64_t at = begin + 1;
  while (depth > 0 && end - at > 20) {
    const std::int64_t length = 10 + random() % (end - at - 10);
    if (at + length >= end) break;
    self[number] -= length;
    Grow(at, at + length, depth - 1, random, spans, self);
    at += length + random() % 5;
  }
}

class NestingOrder : public testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 random(7);
    for (int tree = 0; tree < 20; ++tree)
      Grow(tree * 10'000, tree * 10'000 + 9'000, 6, random, spans_, self_);
    for (std::uint32_t i = 0; i < spans_.size(); ++i) order_.push_back(i);
    ASSERT_GT(spans_.size(), 200u);
  }
  std::vector<Span> spans_;
  std::vector<std::int64_t> self_;
  std::vector<std::uint32_t> order_;
};

TEST_F(NestingOrder, EventsMayComeByBegin) { EXPECT_EQ(SelfTimes(spans_, order_), self_); }

TEST_F(NestingOrder, EventsMayComeByEnd) {
  std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return spans_[a].end != spans_[b].end ? spans_[a].end < spans_[b].end
                                          : spans_[a].begin > spans_[b].begin;
  });
  EXPECT_EQ(SelfTimes(spans_, order_), self_);
}

TEST(Nesting, SiblingsMayComeInAnyOrder) {
  const std::vector<Span> spans = {{0, 100}, {10, 20}, {30, 40}, {50, 60}};
  EXPECT_THAT(SelfTimes(spans, {2, 1, 3, 0}), testing::ElementsAre(70, 10, 10, 10));
  EXPECT_THAT(SelfTimes(spans, {0, 3, 1, 2}), testing::ElementsAre(70, 10, 10, 10));
}

TEST(Nesting, AnEventBetweenTwoThatCameEarlierTakesTheInnerOne) {
  const std::vector<Span> spans = {{0, 100}, {10, 50}, {20, 30}};
  EXPECT_THAT(SelfTimes(spans, {0, 2, 1}), testing::ElementsAre(60, 30, 10));
}

TEST(Nesting, AnEventThatEndsLastTakesManyThatCameBefore) {
  std::vector<Span> spans;
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    spans.push_back({i * 10, i * 10 + 4});
    order.push_back(i);
  }
  spans.push_back({0, 1'000'000});
  order.push_back(100'000);
  EXPECT_EQ(SelfTimes(spans, order).back(), 600'000);
}

}  // namespace
}  // namespace strobe::digest
