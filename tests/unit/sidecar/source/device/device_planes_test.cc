#include "sidecar/source/device/device_planes.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tensorflow/xplane.pb.h"
#include "tests/fakes/unit_dir.h"

namespace strobe::source {
namespace {

using tensorflow::profiler::XSpace;

wire::DeviceRecord Device(std::uint32_t ordinal, std::uint8_t uuid) {
  return {.ordinal = ordinal,
          .name = 1,
          .uuid = {uuid},
          .memory = 80ull << 30,
          .major = 9,
          .cores = 132,
          .clock_khz = 1'980'000,
          .memory_clock_khz = 2'619'000,
          .bus_bits = 5120,
          .warp = 32,
          .threads = 2048,
          .blocks = 32,
          .registers = 65536,
          .shared = 233472};
}

// One tick is one nanosecond of the device's clock and of the window.
DeviceTrace Trace(const DeviceActivity& activity, std::string label = "") {
  return {activity, DeviceClock({{0, 0}, {1'000'000, 1'000'000}}), {0, 0, 1000}, std::move(label)};
}

XSpace Decode(DevicePlanes& planes) {
  XSpace space;
  EXPECT_TRUE(space.ParseFromString(planes.Encode()));
  return space;
}

DeviceActivity OneOfEach() {
  DeviceActivity activity;
  activity.texts = {{1, "NVIDIA H100"}, {2, "_Z3addPfi"}, {3, "cuLaunchKernel"}, {4, "forward"}};
  activity.devices = {Device(0, 1)};
  activity.kernels = {{.begin = 300,
                       .end = 500,
                       .context = 1,
                       .stream = 7,
                       .correlation = 11,
                       .name = 2,
                       .graph = 5,
                       .grid = {8, 1, 1},
                       .block = {128, 1, 1},
                       .dynamic_shared = 256,
                       .registers = 32}};
  activity.copies = {{.begin = 100,
                      .end = 200,
                      .bytes = 4096,
                      .context = 1,
                      .stream = 7,
                      .correlation = 10,
                      .copy_kind = 1,
                      .source_kind = 2,
                      .destination_kind = 3,
                      .flags = 1}};
  activity.sets = {{.begin = 210,
                    .end = 220,
                    .bytes = 64,
                    .context = 1,
                    .stream = 7,
                    .correlation = 12,
                    .memory_kind = 3}};
  activity.memory = {{.time = 50,
                      .bytes = 1024,
                      .context = 1,
                      .stream = 9,
                      .correlation = 13,
                      .operation = 1,
                      .memory_kind = 3}};
  activity.calls = {{.begin = 280, .end = 290, .thread = 42, .correlation = 11, .name = 3}};
  activity.overheads = {{.begin = 600, .end = 610, .kind = 1 << 16}};
  activity.externals = {{.external = 99, .correlation = 11}};
  activity.markers = {{.time = 40, .id = 1, .flags = 2, .thread = 42, .name = 4},
                      {.time = 700, .id = 1, .flags = 4}};
  return activity;
}

// Compares the whole output with the golden file. After an intended change, run STROBE_GOLDEN=write
// sidecar_tests.
TEST(DevicePlanes, AreGolden) {
  const DeviceActivity activity = OneOfEach();
  DevicePlanes planes(1'000'000);
  planes.Add(Trace(activity));
  const XSpace space = Decode(planes);
  google::protobuf::TextFormat::Printer printer;
  std::string text;
  ASSERT_TRUE(printer.PrintToString(space, &text));
  const std::string path = UnitDir() + "/sidecar/source/golden/device_planes.textproto";
  if (const char* wish = std::getenv("STROBE_GOLDEN"); wish != nullptr) std::ofstream(path) << text;
  std::stringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, golden.str());
}

TEST(DevicePlanes, CallsGoToTheirThreads) {
  const DeviceActivity activity = OneOfEach();
  DevicePlanes planes(1'000'000);
  const auto calls = planes.Add(Trace(activity));
  ASSERT_EQ(calls.size(), 1u);
  ASSERT_EQ(calls.at(42).size(), 1u);
  const HostCall& call = calls.at(42)[0];
  EXPECT_EQ(call.name, "cuLaunchKernel");
  EXPECT_EQ(call.begin_ps, 280'000);
  EXPECT_EQ(call.correlation, 11u);
}

TEST(DevicePlanes, LeavesOutWhatLiesOutsideOrHasNotEnded) {
  DeviceActivity activity;
  activity.devices = {Device(0, 1)};
  activity.kernels = {{.begin = 900, .end = 1100},
                      {.begin = 10, .end = 0},
                      {.begin = 0, .end = 0},
                      {.begin = 100, .end = 200, .device = 3}};
  activity.markers = {{.time = 5, .id = 1, .flags = 4}, {.time = 6, .id = 2, .flags = 2}};
  DevicePlanes planes(1'000'000);
  planes.Add(Trace(activity));
  const XSpace space = Decode(planes);
  ASSERT_EQ(space.planes_size(), 1) << "the device is there, though it did nothing";
  EXPECT_EQ(space.planes(0).lines_size(), 0);
}

TEST(DevicePlanes, ProgramsShareDevicesByUuid) {
  DeviceActivity first = OneOfEach(), second = OneOfEach(), third = OneOfEach();
  second.devices = {Device(0, 2)};  // Its device 0 is another physical device.
  DevicePlanes planes(1'000'000);
  planes.Add(Trace(first, "[a 1]"));
  planes.Add(Trace(second, "[b 2]"));
  const auto calls = planes.Add(Trace(third, "[c 3]"));
  EXPECT_EQ(calls.at(42)[0].correlation, 2ull << 32 | 11);
  EXPECT_EQ(calls.at(42)[0].device, 0u);
  const XSpace space = Decode(planes);
  ASSERT_EQ(space.planes_size(), 3);
  EXPECT_EQ(space.planes(0).name(), "/device:GPU:0");
  EXPECT_EQ(space.planes(1).name(), "/device:GPU:1");
  std::set<std::int64_t> ids;
  std::vector<std::string> names;
  for (const auto& line : space.planes(0).lines()) {
    if (line.name() == "CUPTI overhead") continue;
    EXPECT_TRUE(ids.insert(line.id()).second) << line.name();
    names.push_back(line.name());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("Stream #7(Compute,MemcpyH2D,Memset) [a 1]",
                                                   "Stream #9(MemoryAlloc) [a 1]",
                                                   "Stream #7(Compute,MemcpyH2D,Memset) [c 3]",
                                                   "Stream #9(MemoryAlloc) [c 3]"));
}

TEST(DevicePlanes, WithoutAClockThereIsNothingToPlace) {
  const DeviceActivity activity = OneOfEach();
  DevicePlanes planes(1'000'000);
  EXPECT_TRUE(planes.Add({activity, DeviceClock({})}).empty());
  EXPECT_EQ(planes.Encode(), "");
}

}  // namespace
}  // namespace strobe::source
