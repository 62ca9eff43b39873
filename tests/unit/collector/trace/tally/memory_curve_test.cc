#include "collector/trace/tally/memory_curve.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "collector/trace/xplane/names.h"
#include "tests/unit/collector/colliding_names.h"
#include "tests/unit/collector/trace/tally/made_trace.h"

namespace strobe::tally {
namespace {

// Allocations as collector/trace/kineto writes those of PyTorch.
class MemoryTrace {
 public:
  MemoryTrace() { gpu_.BeginLine(1, xplane::kCounterLine, 0); }

  void Allocate(std::int64_t at_ps, std::int64_t address, std::int64_t bytes, int thread = 7) {
    total_ += bytes;
    gpu_.AddEvent(gpu_.EventId("Total Allocated"), at_ps, 0);
    gpu_.AddEventStat(gpu_.StatId("Total Allocated"), total_);
    gpu_.AddEventStat(gpu_.StatId("Addr"), address);
    gpu_.AddEventStat(gpu_.StatId("Bytes"), bytes);
    gpu_.AddEventStat(gpu_.StatId("tid"), xplane::Ref{std::to_string(thread)});
    gpu_.AddEvent(gpu_.EventId("Total Reserved"), at_ps, 0);
    gpu_.AddEventStat(gpu_.StatId("Total Reserved"), std::int64_t{5000});
  }
  // Memory that was allocated before the recording.
  void Hold(std::int64_t bytes) { total_ += bytes; }

  std::string Encode() {
    xplane::PlaneBuilder host("/host:CPU");
    host.BeginLine(7, "python", 0);
    host.AddEvent(host.EventId("aten::linear"), 0, 1000);
    host.AddEventStat(host.StatId("cat"), xplane::Ref{"cpu_op"});
    host.AddEvent(host.EventId("aten::empty"), 90, 50);
    host.AddEventStat(host.StatId("cat"), xplane::Ref{"cpu_op"});
    host.AddEvent(host.EventId("cudaMalloc"), 95, 10);
    host.AddEventStat(host.StatId("cat"), xplane::Ref{"cuda_runtime"});
    host.AddEvent(host.EventId("aten::relu"), 820, 50);
    host.AddEventStat(host.StatId("cat"), xplane::Ref{"cpu_op"});
    host.AddEvent(host.EventId("annotated"), 850, 100);  // It does not nest with the one before.
    host.AddEventStat(host.StatId("cat"), xplane::Ref{"user_annotation"});
    return gpu_.Encode() + host.Encode();
  }

 private:
  xplane::PlaneBuilder gpu_{"/device:GPU:0"};
  std::int64_t total_ = 0;
};

const MemoryCurve& CurveNamed(const std::vector<MemoryCurve>& curves, std::string_view counter) {
  return *std::ranges::find(curves, counter, &MemoryCurve::counter);
}

TEST(ReadMemory, AddressesThatAreChosenToCollideAreFollowed) {
  MemoryTrace made;
  for (std::int64_t i = 1; i <= kCollidingIds; ++i) made.Allocate(i, i * kCollidingBuckets, i);
  const MadeTrace trace(made.Encode());
  const std::vector<MemoryCurve> curves = *ReadMemory(trace.source());
  const MemoryCurve& curve = CurveNamed(curves, "Total Allocated");
  EXPECT_EQ(curve.alive_bytes, kCollidingIds * (kCollidingIds + 1) / 2);
  EXPECT_EQ(curve.alive.at(0).bytes, kCollidingIds);
}

TEST(ReadMemory, TellsThePeakAndWhatWasAliveThen) {
  MemoryTrace made;
  made.Hold(100);
  made.Allocate(100, 0xa, 300);     // On the thread of aten::empty, within a call of the runtime.
  made.Allocate(500, 0xb, 700, 8);  // On a thread of which nothing is known.
  made.Allocate(600, 0xa, -300);
  made.Allocate(700, 0xa, 200);  // The address is used again.
  made.Allocate(800, 0xc, 400);  // The peak: 100 + 700 + 200 + 400.
  made.Allocate(900, 0xb, -700);
  const MadeTrace trace(made.Encode());
  const std::vector<MemoryCurve> curves = *ReadMemory(trace.source());
  ASSERT_EQ(curves.size(), 2u);
  const MemoryCurve& curve = CurveNamed(curves, "Total Allocated");
  EXPECT_EQ(curve.plane, "/device:GPU:0");
  EXPECT_EQ(curve.values, 6u);
  EXPECT_DOUBLE_EQ(curve.peak, 1400);
  EXPECT_EQ(curve.peak_at_ps, 800);
  EXPECT_DOUBLE_EQ(curve.first, 400);
  EXPECT_DOUBLE_EQ(curve.last, 700);
  ASSERT_TRUE(curve.tells_allocations);
  EXPECT_EQ(curve.alive_bytes, 1300);
  ASSERT_EQ(curve.alive.size(), 3u);
  EXPECT_EQ(curve.alive[0].bytes, 700);
  EXPECT_EQ(curve.alive[0].by, "");
  EXPECT_EQ(curve.alive[1].bytes, 400);
  EXPECT_EQ(curve.alive[1].by, "aten::linear");
  EXPECT_EQ(curve.alive[2].bytes, 200);
  EXPECT_EQ(curve.alive[2].begin_ps, 700);
  EXPECT_FALSE(CurveNamed(curves, "Total Reserved").tells_allocations);
  const MemoryCurve without =
      CurveNamed(*ReadMemory(trace.source(), Allocations::kLeftOut), "Total Allocated");
  EXPECT_DOUBLE_EQ(without.peak, 1400);
  EXPECT_EQ(without.points, curve.points);
  EXPECT_FALSE(without.tells_allocations);
}

TEST(ReadMemory, TheInnermostOperatorAllocates) {
  MemoryTrace made;
  made.Allocate(100, 0xa, 300);
  const MadeTrace trace(made.Encode());
  const std::vector<MemoryCurve> curves = *ReadMemory(trace.source());
  EXPECT_EQ(CurveNamed(curves, "Total Allocated").alive.at(0).by, "aten::empty");

  MemoryTrace later;
  later.Allocate(900, 0xa, 300);
  const MadeTrace overlapping(later.Encode());
  EXPECT_EQ(CurveNamed(*ReadMemory(overlapping.source()), "Total Allocated").alive.at(0).by,
            "annotated");
}

// However many values there are, the peak is among the points.
TEST(ReadMemory, PointsAndAllocationsAreBounded) {
  MemoryTrace made;
  for (std::int64_t i = 0; i < 5000; ++i) made.Allocate(i * 10, i + 1, i == 3333 ? 1'000'000 : 1);
  made.Allocate(50'000, 3334, -1'000'000);
  const MadeTrace trace(made.Encode());
  const std::vector<MemoryCurve> curves = *ReadMemory(trace.source());
  const MemoryCurve& curve = CurveNamed(curves, "Total Allocated");
  EXPECT_EQ(curve.values, 5001u);
  EXPECT_LE(curve.points.size(), MemoryCurve::kMaxPoints);
  EXPECT_GT(curve.points.size(), MemoryCurve::kMaxPoints / 2);
  EXPECT_DOUBLE_EQ(curve.peak, 1'004'999);
  const auto most =
      std::ranges::max_element(curve.points, {}, &std::pair<std::int64_t, double>::second);
  EXPECT_EQ(*most, std::pair(curve.peak_at_ps, curve.peak));
  EXPECT_EQ(curve.alive.size(), MemoryCurve::kMaxAllocations);
  EXPECT_EQ(curve.alive_left_out, 5000 - MemoryCurve::kMaxAllocations);
  EXPECT_EQ(curve.alive.front().bytes, 1'000'000);
}

// Events as the allocators of XLA and TensorFlow write them.
TEST(ReadMemory, AllocatorsTellTheirMemoryByEvents) {
  xplane::PlaneBuilder host("/host:CPU");
  std::int64_t allocated = 100;  // Since before the recording.
  const auto move = [&](std::int64_t at_ps, std::int64_t address, std::int64_t bytes,
                        std::string_view by, std::string_view allocator = "GPU_0_bfc") {
    allocated += bytes;
    host.AddEvent(host.EventId(bytes < 0 ? "MemoryDeallocation" : "MemoryAllocation"), at_ps, 0);
    host.AddEventStat(host.StatId("allocator_name"), xplane::Ref{allocator});
    host.AddEventStat(host.StatId("bytes_allocated"), allocated);
    host.AddEventStat(host.StatId("allocation_bytes"), std::abs(bytes));
    host.AddEventStat(host.StatId("addr"), address);
    host.AddEventStat(host.StatId("tf_op"), xplane::Ref{by});
  };
  host.BeginLine(1, "main", 0);
  move(10, 1, 500, "weights");
  move(30, 2, 300, "matmul");
  move(50, 2, -300, "");
  host.BeginLine(2, "pool", 0);
  move(40, 3, 50, "bias");
  move(60, 4, 7, "copy", "gpu_host_bfc");
  host.AddEvent(host.EventId("other"), 70, 100);
  const MadeTrace trace(host.Encode());
  const std::vector<MemoryCurve> curves = *ReadMemory(trace.source());
  ASSERT_EQ(curves.size(), 2u);
  const MemoryCurve& gpu = curves[0];
  EXPECT_EQ(gpu.plane, "GPU_0_bfc");
  EXPECT_EQ(gpu.counter, "Allocated memory");
  EXPECT_EQ(gpu.values, 4u);
  EXPECT_EQ(gpu.first, 600);
  EXPECT_EQ(gpu.peak, 900);
  EXPECT_EQ(gpu.peak_at_ps, 30);
  EXPECT_EQ(gpu.alive_bytes, 800);
  ASSERT_EQ(gpu.alive.size(), 2u);
  EXPECT_EQ(gpu.alive[0].by, "weights");
  EXPECT_EQ(gpu.alive[1].bytes, 300);
  EXPECT_EQ(curves[1].plane, "gpu_host_bfc");
  const std::vector<MemoryCurve> brief = *ReadMemory(trace.source(), Allocations::kLeftOut);
  ASSERT_EQ(brief.size(), 2u);
  EXPECT_EQ(brief[0].peak, 900);
  EXPECT_FALSE(brief[0].tells_allocations);
}

TEST(ReadMemory, OtherCountersAreNoMemory) {
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, xplane::kCounterLine, 0);
  host.AddEvent(host.EventId("queue length"), 0, 0);
  host.AddEventStat(host.StatId("value"), std::int64_t{3});
  const MadeTrace trace(host.Encode());
  EXPECT_TRUE(ReadMemory(trace.source())->empty());
}

}  // namespace
}  // namespace strobe::tally
