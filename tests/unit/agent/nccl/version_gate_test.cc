#include "agent/nccl/version_gate.h"

#include <gtest/gtest.h>

namespace strobe::nccl {
namespace {

using wire::CollectiveLibrary;
using wire::DeviceTimes;

DeviceTimes Nccl(int version) {
  return DeviceTimesOf({.kind = CollectiveLibrary::kNccl, .version = version});
}
DeviceTimes Rccl(int version) {
  return DeviceTimesOf({.kind = CollectiveLibrary::kRccl, .version = version});
}

TEST(VersionGate, DevicesTimesOnlyWhereTheyAreCheap) {
  for (const int good : {22703, 22809, 22907, 23004, 23007})
    EXPECT_EQ(Nccl(good), DeviceTimes::kOnRequest) << good;
  // 2.31.2 cost 4 to 13 %; nothing newer is known to be better.
  for (const int slow : {23003, 23100, 23102, 23203})
    EXPECT_EQ(Nccl(slow), DeviceTimes::kSlowVersion) << slow;
  EXPECT_EQ(Rccl(22707), DeviceTimes::kSlowVersion) << "it crashed";
  EXPECT_EQ(Rccl(22803), DeviceTimes::kOnRequest);
  EXPECT_EQ(DeviceTimesOf({}), DeviceTimes::kOtherLibrary);
}

TEST(VersionGate, AnAddressWithoutALibraryTellsNothing) {
  EXPECT_EQ(LibraryAt(nullptr).version, 0);
  int on_the_stack = 0;
  EXPECT_EQ(LibraryAt(&on_the_stack).version, 0);
  EXPECT_EQ(LibraryAt(reinterpret_cast<const void*>(&Nccl)).version, 0)
      << "this program has no ncclGetVersion";
}

}  // namespace
}  // namespace strobe::nccl
