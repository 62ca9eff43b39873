#include "common/fair/rate_shares.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "common/base/strings.h"

namespace strobe::fair {
namespace {

using namespace std::chrono_literals;

// How many starts each namespace gets if it asks ten times a second for `length` seconds.
std::map<std::string, int> StartsOf(StartShares& shares, const std::vector<std::string>& storming,
                                    int length, MonoTime& now) {
  std::map<std::string, int> starts;
  for (int i = 0; i < length * 10; ++i, now += 100ms) {
    for (const std::string& ns : storming) starts[ns] += shares.Take(ns, now) ? 1 : 0;
  }
  return starts;
}

TEST(StartShares, ANamespaceThatIsAloneHasAllStarts) {
  StartShares shares;
  MonoTime now{1h};
  EXPECT_EQ(StartsOf(shares, {"a"}, 60, now)["a"], 60);
}

TEST(StartShares, ANamespaceThatStormsLeavesStartsForTheOthers) {
  StartShares shares;
  MonoTime now{1h};
  // Without shares, "a" would always come first.
  auto starts = StartsOf(shares, {"a", "b", "c"}, 60, now);
  for (const auto& [ns, count] : starts) EXPECT_NEAR(count, 20, 2) << ns;
  now += 2min;
  EXPECT_EQ(StartsOf(shares, {"a"}, 60, now)["a"], 60) << "the others ask no more";
}

TEST(StartShares, AStartThatIsGivenBackIsForOthersOnly) {
  StartShares shares;
  const MonoTime now{1h};
  ASSERT_TRUE(shares.Take("a", now));
  EXPECT_FALSE(shares.MayStart("b", now));
  shares.GiveBack();
  EXPECT_FALSE(shares.MayStart("a", now)) << "it would be refused again";
  EXPECT_TRUE(shares.Take("b", now));
  EXPECT_FALSE(shares.MayStart("c", now));
  EXPECT_FALSE(shares.MayStart("a", now + 2s)) << "three have asked";
  EXPECT_TRUE(shares.MayStart("a", now + 3s));
}

TEST(StartShares, NamespacesWithoutEndAreBoundedAndForgotten) {
  StartShares shares;
  MonoTime now{1h};
  for (int i = 0; i < 5000; ++i) (void)shares.Take(StrCat("ns-", i), now);
  EXPECT_LE(shares.size(), 1000u);
  now += 2min;
  EXPECT_TRUE(shares.Take("another", now));
  EXPECT_EQ(shares.size(), 1u);
}

TEST(ReadShares, AllNamespacesTogetherKeepTheRate) {
  MonoTime now{1h};
  ReadShares shares(200, 400, now);
  int taken = 0;
  for (int i = 0; i < 10 * 1000; ++i, now += 1ms) {
    for (const char* ns : {"a", "b", "c"}) taken += shares.Take(ns, now) ? 1 : 0;
  }
  EXPECT_LE(taken, 400 + 10 * 200);
  EXPECT_GE(taken, 10 * 150);
}

TEST(ReadShares, AStormInOneNamespaceLeavesReadsForOthers) {
  MonoTime now{1h};
  ReadShares shares(200, 400, now);
  const auto storm = [&] {
    int taken = 0;
    for (int i = 0; i < 1000; ++i, now += 1ms) taken += shares.Take("noisy", now) ? 1 : 0;
    return taken;
  };
  for (int second = 0; second < 60; ++second) {
    EXPECT_GE(storm(), 125) << "it has nearly all that nobody else wants";
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(shares.Take("quiet", now)) << second;
  }
}

TEST(ReadShares, NamespacesWithoutEndAreBoundedAndForgotten) {
  MonoTime now{1h};
  ReadShares shares(200, 400, now);
  for (int i = 0; i < 5000; ++i) (void)shares.Take(StrCat("ns-", i), now);
  EXPECT_LE(shares.size(), 1000u);
  now += 1min;
  EXPECT_TRUE(shares.Take("another", now));
  EXPECT_EQ(shares.size(), 1u);
}

}  // namespace
}  // namespace strobe::fair
