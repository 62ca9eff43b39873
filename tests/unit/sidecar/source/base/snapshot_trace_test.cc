#include "sidecar/source/base/snapshot_trace.h"

#include <gmock/gmock.h>

#include "collector/trace/xplane/space.h"
#include "collector/trace/xplane/summary.h"
#include "tests/fakes/fake_trace.h"

namespace strobe::source {
namespace {

using namespace std::chrono_literals;
using tensorflow::profiler::XSpace;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kMemory = 1u << 30;
// A session of ten seconds with an event of the TPU every 10 ms. The window is its last second.
constexpr std::int64_t kSession = 1'800'000'000'000'000'000, kStart = kSession + 9'000'000'000,
                       kStop = kSession + 10'000'000'000;

XSpace Snapshot() {
  XSpace space = FakeTrace(kSession, kStop, 0);
  AddFakeTpu(kStop - kSession, space);
  return space;
}

absl::StatusOr<SnapshotTrace> Cut(const XSpace& space, Nanos look_back) {
  return CutSnapshot(space.SerializeAsString(), kStart, look_back, kMemory);
}

// The absolute begins of the plane's events.
std::vector<std::int64_t> BeginsOf(const std::string& xspace, std::string_view plane) {
  std::vector<std::int64_t> begins;
  const auto space = xplane::Space::Read(xspace);
  const std::int64_t zero = *xplane::TimeZero(*space);
  for (const xplane::Line& line : space->Find(plane)->lines) {
    EXPECT_GE(line.timestamp_ns, 0);
    EXPECT_TRUE(xplane::ForEachEvent(line, [&](const xplane::Event& event) {
                  EXPECT_GE(event.offset_ps, 0);
                  begins.push_back(zero + line.timestamp_ns + event.offset_ps / 1000);
                }).ok());
  }
  return begins;
}

TEST(CutSnapshot, KeepsWhatWasAskedForAtItsAbsoluteTime) {
  const auto cut = Cut(Snapshot(), 3s);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_TRUE(cut->has_devices);
  EXPECT_EQ(cut->reached_back, 3s);
  const auto begins = BeginsOf(cut->xspace, "/device:TPU:0");
  ASSERT_EQ(begins.size(), 400u);
  EXPECT_EQ(begins.front(), kStart - 3'000'000'000);
  EXPECT_EQ(begins.back(), kStop - 10'000'000);
}

TEST(CutSnapshot, SaysWhenTheTraceAndTheRecordingBegan) {
  const auto cut = Cut(Snapshot(), 3s);
  EXPECT_EQ(*xplane::TimeZero(cut->xspace), kStart - 3'000'000'000);
  const auto summary = xplane::Summarize(cut->xspace);
  EXPECT_EQ(summary->started_ns, kStart);
  EXPECT_EQ(summary->stopped_ns, kStop);
  EXPECT_THAT(summary->hostnames, ElementsAre("host"));
}

TEST(CutSnapshot, ReachesNoFurtherThanTheSession) {
  const auto cut = Cut(Snapshot(), 1min);
  EXPECT_EQ(cut->reached_back, 9s);
  EXPECT_EQ(*xplane::TimeZero(cut->xspace), kSession);
  EXPECT_EQ(BeginsOf(cut->xspace, "/device:TPU:0").size(), 1000u);
}

TEST(CutSnapshot, OfASessionThatBeganDuringTheWindowReachesNotBack) {
  XSpace space = FakeTrace(kStart + 500'000'000, kStop, 0);
  AddFakeTpu(500'000'000, space);
  const auto cut = Cut(space, 3s);
  EXPECT_EQ(cut->reached_back, 0s);
  EXPECT_EQ(xplane::Summarize(cut->xspace)->started_ns, kStart + 500'000'000);
  EXPECT_EQ(BeginsOf(cut->xspace, "/device:TPU:0").front(), kStart + 500'000'000);
}

// A circular buffer has overwritten the oldest events.
TEST(CutSnapshot, ReachesAsFarAsTheBufferOfTheBusiestDevice) {
  XSpace space = Snapshot();
  auto& busy = AddFakeTpu(kStop - kSession, space);
  busy.set_name("/device:TPU:1");
  busy.mutable_lines(0)->mutable_events()->DeleteSubrange(0, 800);
  space.add_planes()->set_name("/device:TPU:2");  // It ran nothing.
  const auto cut = Cut(space, 3s);
  EXPECT_EQ(cut->reached_back, 1s);
  EXPECT_EQ(BeginsOf(cut->xspace, "/device:TPU:0").size(), 400u);
  EXPECT_EQ(BeginsOf(cut->xspace, "/device:TPU:1").size(), 200u);
}

// A tracer without circular buffers records until they are full.
TEST(CutSnapshot, WithoutAnEventInTheSpanHasNoDevices) {
  XSpace space = Snapshot();
  space.mutable_planes(2)->mutable_lines(0)->mutable_events()->DeleteSubrange(100, 900);
  const auto cut = Cut(space, 3s);
  EXPECT_FALSE(cut->has_devices);
  EXPECT_EQ(cut->reached_back, 0s);
  EXPECT_THAT(BeginsOf(cut->xspace, "/device:TPU:0"), IsEmpty());
}

TEST(CutSnapshot, UnderstandsLinesWithUnixTimes) {
  XSpace space = Snapshot();
  space.mutable_planes(2)->mutable_lines(0)->set_timestamp_ns(kSession);
  const auto cut = Cut(space, 3s);
  EXPECT_EQ(cut->reached_back, 3s);
  EXPECT_EQ(BeginsOf(cut->xspace, "/device:TPU:0").front(), kStart - 3'000'000'000);
}

TEST(CutSnapshot, OfNoTraceIsAnError) {
  XSpace space = Snapshot();
  space.mutable_planes(1)->clear_stats();
  EXPECT_EQ(Cut(space, 3s).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(CutSnapshot("", kStart, 3s, kMemory).ok());
  EXPECT_FALSE(CutSnapshot("\x0a\xff", kStart, 3s, kMemory).ok());
  const std::string bytes = Snapshot().SerializeAsString();
  EXPECT_EQ(CutSnapshot(bytes, kStart, 3s, 10).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace strobe::source
