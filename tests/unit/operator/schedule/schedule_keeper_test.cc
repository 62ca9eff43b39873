#include "operator/schedule/schedule_keeper.h"

#include <gtest/gtest.h>

namespace strobe::schedule {
namespace {

TEST(ScheduleKeeper, TheEndOfARunWakesItsSchedule) {
  EXPECT_EQ(ScheduleKeyOfRun("ml/nightly-20241101-000000"), "ml/nightly");
  EXPECT_EQ(ScheduleKeyOfRun("ml/first-look"), "");
}

}  // namespace
}  // namespace strobe::schedule
