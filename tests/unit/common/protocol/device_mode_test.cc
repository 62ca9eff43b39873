#include "common/protocol/device_mode.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

TEST(DeviceMode, TheIndexOfANameIsItsNumber) {
  EXPECT_EQ(kDeviceModes[static_cast<std::size_t>(DeviceMode::kDisabled)], "Disabled");
  EXPECT_EQ(kDeviceModes[static_cast<std::size_t>(DeviceMode::kEnabled)], "Enabled");
  EXPECT_EQ(kDeviceModes[static_cast<std::size_t>(DeviceMode::kKernels)], "Kernels");
  EXPECT_EQ(kDeviceModes[static_cast<std::size_t>(DeviceMode::kLaunches)], "Launches");
  EXPECT_EQ(kDeviceModes[static_cast<std::size_t>(DeviceMode::kGraphs)], "Graphs");
  EXPECT_EQ(kDeviceModes[static_cast<std::size_t>(DeviceMode::kAll)], "All");
}

TEST(DeviceMode, TheAgentsDefaultIsTheCheapestWithLaunchArrows) {
  EXPECT_EQ(AgentsMode(1), DeviceMode::kLaunches);
  EXPECT_EQ(AgentsMode(3), DeviceMode::kLaunches);
  EXPECT_EQ(AgentsMode(6), DeviceMode::kLaunches) << "a number of a newer release";
  EXPECT_EQ(AgentsMode(2), DeviceMode::kKernels);
  EXPECT_EQ(AgentsMode(4), DeviceMode::kGraphs);
  EXPECT_EQ(AgentsMode(5), DeviceMode::kAll);
  EXPECT_EQ(AgentsMode(0), DeviceMode::kDisabled);
}

TEST(DeviceMode, EachModeButAllTellsWhatItCannotShow) {
  EXPECT_NE(LeftOutOf(DeviceMode::kKernels).find("launch delays"), std::string_view::npos);
  EXPECT_NE(LeftOutOf(DeviceMode::kLaunches).find("allocations"), std::string_view::npos);
  EXPECT_NE(LeftOutOf(DeviceMode::kGraphs).find("within CUDA graphs"), std::string_view::npos);
  EXPECT_EQ(LeftOutOf(DeviceMode::kAll), "");
  EXPECT_TRUE(WantsOnlyKernels(2));
  EXPECT_FALSE(WantsOnlyKernels(1) || WantsOnlyKernels(5));
}

}  // namespace
}  // namespace strobe
