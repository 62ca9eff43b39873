#include "operator/schedule/schedule.h"

#include <gtest/gtest.h>

namespace strobe::schedule {
namespace {

TEST(Schedule, NamesOfRunsFollowFromTheTimeAndBack) {
  const WallTime time = WallTime{std::chrono::seconds(1'730'000'007)};
  EXPECT_EQ(RunNameOf("nightly", time), "nightly-20241027-033327");
  EXPECT_EQ(ScheduleOfRun("nightly-20241027-033327"), "nightly");
  EXPECT_EQ(TimeOfRun("nightly-20241027-033327"), time);
  EXPECT_EQ(TimeOfRun("nightly-20241327-033327"), std::nullopt);
  EXPECT_EQ(TimeOfRun("nightly"), std::nullopt);
  EXPECT_EQ(ScheduleOfRun("a-b-20241027-033327"), "a-b");
  EXPECT_EQ(ScheduleOfRun("20241027-033327-20241027-033327"), "20241027-033327");
  for (const char* name :
       {"", "nightly", "20241027-033327", "-20241027-033327", "nightly20241027-033327",
        "nightly-20241027x033327", "nightly-2024102a-033327", "nightly-20241027-0333271"})
    EXPECT_EQ(ScheduleOfRun(name), "") << name;
}

TEST(Schedule, ARunsOtherNameTellsTheSame) {
  kube::RunCreator creator(kube::CreatorKind::kSchedule);
  creator.uid = "u";
  const std::string usual = "nightly-20241027-033327";
  const std::string other = kube::OtherRunName(usual, creator, "key");
  EXPECT_EQ(other, kube::OtherRunName(usual, creator, "key"));
  EXPECT_NE(other, kube::OtherRunName(usual, creator, "another key"));
  EXPECT_EQ(ScheduleOfRun(other), "nightly");
  EXPECT_EQ(TimeOfRun(other), TimeOfRun(usual));
  EXPECT_EQ(kube::UsualRunName(other), usual);
  creator.uid = "v";
  EXPECT_NE(other, kube::OtherRunName(usual, creator, "key"));
  for (const std::string& name :
       std::vector<std::string>{"", usual, "nightly-x0123456789abcde", "nightly-x0123456789abcdeg",
                                "-x0123456789abcdef"})
    EXPECT_EQ(kube::UsualRunName(name), name);
}

}  // namespace
}  // namespace strobe::schedule
