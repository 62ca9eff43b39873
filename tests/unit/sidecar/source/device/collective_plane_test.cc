#include "sidecar/source/device/collective_plane.h"

#include <gmock/gmock.h>

#include <initializer_list>
#include <map>
#include <string>
#include <tuple>

#include "tensorflow/xplane.pb.h"

namespace strobe::source {
namespace {

using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;

constexpr std::int64_t kStartNs = 5'000'000'000;
// The device's clock is ahead of the host's by so much.
constexpr std::uint64_t kAhead = 1'700'000'000'000'000'000;

wire::CollectiveCopy CallAt(std::uint64_t number, std::uint64_t begin, std::uint16_t communicator) {
  return {.number = number,
          .begin = begin,
          .launched = begin + 3,
          .ordinal = number + 1,
          .count = 1024,
          .sequence = number,
          .key = {.communicator = communicator,
                  .call = wire::CollectiveCall::kAllReduce,
                  .type = wire::ElementType::kFloat32,
                  .peer = -1},
          .how = {.channels = 2, .algorithm = 'R', .protocol = 2, .flags = 0, .thread = 7}};
}

CollectiveActivity TwoCommunicators() {
  CollectiveActivity activity;
  activity.library = wire::CollectiveLibrary::kNccl;
  activity.communicators = {{.id = 0xabc, .rank = 3, .ranks = 8, .name = "tensor"},
                            {.id = 0xdef, .rank = 0, .ranks = 2}};
  activity.calls = {CallAt(0, 100, 0), CallAt(1, 200, 1), CallAt(2, 300, 0)};
  return activity;
}

XPlane PlaneOf(const CollectiveActivity& activity, const std::string& label = "") {
  CollectivePlane plane(/*length_ps=*/1'000'000'000);
  // One tick is one microsecond of the window.
  plane.Add({.activity = activity,
             .scale = {.ticks = 0, .ps = 0, .ps_per_tick = 1'000'000, .bends = {}},
             .start_ns = kStartNs,
             .label = label});
  XSpace space;
  EXPECT_TRUE(space.ParseFromString(plane.Encode()));
  return space.planes_size() == 0 ? XPlane() : space.planes(0);
}

std::map<std::string, std::string> StatsOf(const XPlane& plane,
                                           const tensorflow::profiler::XEvent& event) {
  std::map<std::string, std::string> stats;
  for (const auto& stat : event.stats()) {
    const std::string& name = plane.stat_metadata().at(stat.metadata_id()).name();
    switch (stat.value_case()) {
      case tensorflow::profiler::XStat::kRefValue:
        stats[name] = plane.stat_metadata().at(static_cast<std::int64_t>(stat.ref_value())).name();
        break;
      case tensorflow::profiler::XStat::kUint64Value:
        stats[name] = std::to_string(stat.uint64_value());
        break;
      default:
        stats[name] = std::to_string(stat.int64_value());
    }
  }
  return stats;
}

TEST(CollectiveActivity, CountsCallsWhoseCommunicatorIsNotKnown) {
  CollectiveActivity activity = TwoCommunicators();
  EXPECT_EQ(activity.WithoutEntry(), 0u);
  activity.calls.push_back(CallAt(3, 400, 0xffff));
  EXPECT_EQ(activity.WithoutEntry(), 1u);
}

TEST(CollectivePlane, HasALinePerCommunicator) {
  const XPlane plane = PlaneOf(TwoCommunicators());
  EXPECT_EQ(plane.name(), "/host:NCCL");
  ASSERT_EQ(plane.lines_size(), 2);
  EXPECT_EQ(plane.lines(0).name(), "tensor 0xabc rank 3 of 8");
  EXPECT_EQ(plane.lines(1).name(), "0xdef rank 0 of 2");
  ASSERT_EQ(plane.lines(0).events_size(), 2);
  const auto& event = plane.lines(0).events(1);
  EXPECT_EQ(event.offset_ps(), 300'000'000);
  EXPECT_EQ(event.duration_ps(), 3'000'000);
  EXPECT_EQ(plane.event_metadata().at(event.metadata_id()).name(), "nccl:AllReduce");
  const auto stats = StatsOf(plane, event);
  EXPECT_EQ(stats.at("Collective name"), "AllReduce");
  EXPECT_EQ(stats.at("Process Group Name"), "0xabc");
  EXPECT_EQ(stats.at("Seq"), "3");
  EXPECT_EQ(stats.at("dtype"), "Float");
  EXPECT_EQ(stats.at("In msg nelems"), "1024");
}

TEST(CollectivePlane, DevicesTimesAreOnTheHostsClock) {
  CollectiveActivity activity = TwoCommunicators();
  // Ends 150 and 350 us after the window's begin; the program learned of it 9 and 4 us later.
  for (const auto& [index, end_us, late_us] : {std::tuple(0, 150, 9), std::tuple(2, 350, 4)}) {
    wire::CollectiveCopy& call = activity.calls[static_cast<std::size_t>(index)];
    const auto end = static_cast<std::uint64_t>(kStartNs + end_us * 1000);
    call.device_begin = kAhead + end - 20'000;
    call.device_end = kAhead + end;
    call.end_seen_ns = end + static_cast<std::uint64_t>(late_us) * 1000;
  }
  const XPlane plane = PlaneOf(activity, "[a 1]");
  ASSERT_EQ(plane.lines_size(), 3);
  EXPECT_EQ(plane.lines(1).name(), "[a 1] tensor 0xabc rank 3 of 8 (device)");
  ASSERT_EQ(plane.lines(1).events_size(), 2);
  // The shortest delay, 4 us, cannot be told from a difference of the clocks.
  EXPECT_EQ(plane.lines(1).events(0).offset_ps(), 134'000'000);
  EXPECT_EQ(plane.lines(1).events(0).duration_ps(), 20'000'000);
  EXPECT_EQ(plane.lines(1).events(1).offset_ps(), 334'000'000);
}

TEST(CollectivePlane, WhatIsForgedOrOutsideIsLeftOut) {
  CollectiveActivity activity = TwoCommunicators();
  activity.calls[0].begin = 5'000;          // Behind the window.
  activity.calls[1].key.communicator = 99;  // Unknown.
  activity.calls[2].device_begin = 1;
  activity.calls[2].device_end = ~0ull;
  activity.calls[2].end_seen_ns = 77;
  activity.calls[2].key.call = static_cast<wire::CollectiveCall>(200);
  const XPlane plane = PlaneOf(activity);
  ASSERT_EQ(plane.lines_size(), 1);
  ASSERT_EQ(plane.lines(0).events_size(), 1);
  EXPECT_EQ(plane.event_metadata().begin()->second.name(), "nccl:Other");
  EXPECT_EQ(PlaneOf({}).lines_size(), 0);
}

}  // namespace
}  // namespace strobe::source
