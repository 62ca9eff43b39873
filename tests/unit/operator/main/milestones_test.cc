#include "operator/main/milestones.h"

#include <gtest/gtest.h>

#include <thread>

namespace strobe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Milestones, WhoeverWaitsIsWokenByTheLastOfThem) {
  Milestones milestones;
  bool began = false;
  std::thread waiter([&] {
    began = milestones.Await({Milestone::kElected, Milestone::kCacheFilled});
  });
  milestones.Reach(Milestone::kCacheFilled);
  milestones.Reach(Milestone::kServing);
  EXPECT_FALSE(milestones.reached(Milestone::kElected));
  milestones.Reach(Milestone::kElected);
  waiter.join();
  EXPECT_TRUE(began);
}

TEST(Milestones, StopWakesThoseWhoWait) {
  Milestones milestones;
  bool began = true;
  std::thread waiter([&] { began = milestones.Await({Milestone::kCertified}); });
  milestones.Stop();
  waiter.join();
  EXPECT_FALSE(began);
}

TEST(Milestones, NothingBeginsWhileTheProcessEnds) {
  Milestones milestones;
  milestones.Reach(Milestone::kCertified);
  EXPECT_TRUE(milestones.Await({Milestone::kCertified}));
  milestones.Stop();
  EXPECT_TRUE(milestones.stopping());
  EXPECT_TRUE(milestones.reached(Milestone::kCertified));
  EXPECT_FALSE(milestones.Await({Milestone::kCertified}));
}

TEST(Milestones, AwaitStopWaitsForAsLongAsItIsTold) {
  Milestones milestones;
  EXPECT_FALSE(milestones.AwaitStop(milliseconds(1)));
  milestones.Stop();
  EXPECT_TRUE(milestones.AwaitStop(seconds(60)));
}

}  // namespace
}  // namespace strobe
