#include "agent/recorder/disabled.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace strobe::agent {
namespace {

TEST(IsDisabled, ANameCountsOnlyAsAWhole) {
  unsetenv("STROBE_DISABLE");
  EXPECT_FALSE(IsDisabled("devices"));
  for (const char* holds : {"devices", "steps,devices", "devices,steps", "a,,devices,"}) {
    setenv("STROBE_DISABLE", holds, 1);
    EXPECT_TRUE(IsDisabled("devices")) << holds;
    EXPECT_FALSE(IsDisabled("agent")) << holds;
  }
  for (const char* lacks : {"", ",", "device", "devices2", "my-devices", "DEVICES"}) {
    setenv("STROBE_DISABLE", lacks, 1);
    EXPECT_FALSE(IsDisabled("devices")) << lacks;
  }
  unsetenv("STROBE_DISABLE");
}

}  // namespace
}  // namespace strobe::agent
