#include "collector/trace/xplane/names.h"

#include <gtest/gtest.h>

namespace strobe::xplane {
namespace {

TEST(PlaneKindOf, TellsDevicesFromWhatIsRecordedBesideThem) {
  EXPECT_EQ(PlaneKindOf("/device:GPU:0 [worker]"), PlaneKind::kGpu);
  EXPECT_EQ(PlaneKindOf("/device:TPU:0 SparseCore 1"), PlaneKind::kOtherDevice);
  EXPECT_EQ(PlaneKindOf("/device:CUSTOM:Megascale Trace"), PlaneKind::kCustom);
  EXPECT_EQ(PlaneKindOf("/host:CPU"), PlaneKind::kHost);
  EXPECT_EQ(PlaneKindOf(kCollectivesPlane), PlaneKind::kHost);
  for (const std::string_view other : {kTaskEnvironmentPlane, kStrobePlane, std::string_view()})
    EXPECT_EQ(PlaneKindOf(other), PlaneKind::kOther) << other;
}

// Regression: planes of plugins counted as idle devices.
TEST(PlaneKindOf, APluginsPlaneIsNeitherADeviceNorHasThreads) {
  for (const std::string_view device : {"/device:GPU:0", "/device:TPU:0"}) {
    EXPECT_TRUE(IsDevicePlane(device)) << device;
    EXPECT_FALSE(MayHaveThreads(device)) << device;
  }
  for (const std::string_view threads : {"/host:CPU", "Task Environment", "python3"}) {
    EXPECT_FALSE(IsDevicePlane(threads)) << threads;
    EXPECT_TRUE(MayHaveThreads(threads)) << threads;
  }
  EXPECT_FALSE(IsDevicePlane("/device:CUSTOM:Megascale Trace"));
  EXPECT_FALSE(MayHaveThreads("/device:CUSTOM:Megascale Trace"));
}

}  // namespace
}  // namespace strobe::xplane
