#include "operator/trigger/read_shares.h"

#include <gtest/gtest.h>

#include "common/base/strings.h"

namespace strobe::trigger {
namespace {

using namespace std::chrono_literals;

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
}  // namespace strobe::trigger
