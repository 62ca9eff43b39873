#include "operator/request/request_table.h"

#include <gtest/gtest.h>

namespace strobe::request {
namespace {

using namespace std::chrono_literals;

TEST(PollPace, FewLookOftenAndManyTogetherNoMoreThanSome) {
  PollPace pace;
  EXPECT_EQ(pace.Enter("a", "a/0"), kMinPoll);
  Nanos last{};
  for (int i = 0; i < 1000; ++i) last = pace.Enter("a", "a/" + std::to_string(i));
  EXPECT_EQ(pace.waiting(), 1000u);
  EXPECT_EQ(last, 50s) << "1,000 requests that wait made 1,500 calls a second";
  for (int i = 1000; i < 5000; ++i) last = pace.Enter("a", "a/" + std::to_string(i));
  EXPECT_EQ(last, kMaxPoll);
}

TEST(PollPace, ACrowdElsewhereSlowsANamespaceLittle) {
  PollPace pace;
  for (int i = 0; i < 1000; ++i) pace.Enter("crowd", "crowd/" + std::to_string(i));
  EXPECT_EQ(pace.Enter("lone", "lone/a"), kMinPoll);
  EXPECT_EQ(pace.Enter("crowd", "crowd/0"), kMaxPoll) << "it has half of the looks now";
}

TEST(PollPace, WhoeverLeavesCountsNoMore) {
  PollPace pace;
  for (int i = 0; i < 200; ++i) pace.Enter("a", "a/" + std::to_string(i));
  EXPECT_EQ(pace.Enter("a", "a/0"), 10s);
  for (int i = 1; i < 200; ++i) pace.Leave("a/" + std::to_string(i));
  pace.Leave("nobody");
  EXPECT_EQ(pace.Enter("a", "a/0"), kMinPoll);
  EXPECT_EQ(pace.waiting(), 1u);
}

}  // namespace
}  // namespace strobe::request
