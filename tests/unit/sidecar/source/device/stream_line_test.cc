#include "sidecar/source/device/stream_line.h"

#include <gtest/gtest.h>

namespace strobe::source {
namespace {

// The limits of an H100 (compute capability 9.0), from CUDA's programming guide.
constexpr wire::DeviceRecord kHopper{
    .major = 9, .warp = 32, .threads = 2048, .blocks = 32, .registers = 65536, .shared = 233472};

double Percent(std::uint32_t threads, std::uint32_t registers, std::uint32_t shared) {
  return OccupancyPercent(
      {.block = {threads, 1, 1}, .dynamic_shared = shared, .registers = registers}, kHopper);
}

// Expected values from NVIDIA's occupancy calculator.
TEST(Occupancy, IsTheCalculators) {
  EXPECT_EQ(Percent(128, 32, 0), 100);
  EXPECT_EQ(Percent(256, 64, 0), 50);     // Registers: 4 blocks of 8 warps.
  EXPECT_EQ(Percent(256, 255, 0), 12.5);  // 1 block.
  EXPECT_EQ(Percent(32, 16, 0), 50);      // 32 blocks of one warp.
  EXPECT_EQ(Percent(1024, 32, 100 << 10), 100);
  EXPECT_EQ(Percent(1024, 32, 150 << 10), 50);  // Shared memory: 1 block.
  EXPECT_EQ(Percent(96, 32, 0), 98.4375);       // 21 blocks of 3 warps.
}

TEST(Occupancy, IsZeroWhereItCannotBeKnown) {
  EXPECT_EQ(Percent(0, 32, 0), 0);
  EXPECT_EQ(Percent(4096, 32, 0), 0);
  EXPECT_EQ(OccupancyPercent({.block = {128, 1, 1}, .registers = 32}, {}), 0);
}

}  // namespace
}  // namespace strobe::source
