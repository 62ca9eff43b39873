#include "collector/trace/digest/compute_digest.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "collector/trace/digest/digest_json.h"
#include "collector/trace/digest/durations.h"
#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "common/base/strings.h"
#include "tests/unit/collector/kind_plane.h"

namespace strobe::digest {
namespace {

using testing::ElementsAre;
using xplane::PlaneBuilder;
using xplane::Ref;

constexpr std::int64_t kUs = 1'000'000;  // In ps.
constexpr std::int64_t kUsNs = 1000;

// The plane that tells that the first `us` microseconds after the trace's zero were recorded.
std::string Recorded(std::int64_t us) {
  constexpr std::int64_t kStart = 1'790'000'000'000'000'000;
  PlaneBuilder plane(xplane::kTaskEnvironmentPlane);
  plane.AddPlaneStat(xplane::kProfileStart, kStart);
  plane.AddPlaneStat(xplane::kProfileStop, kStart + us * kUsNs);
  return plane.Encode();
}

Digest DigestOf(const std::string& trace) {
  const absl::StatusOr<xplane::Space> space = xplane::Space::Read(trace);
  absl::StatusOr<Digest> digest = ComputeDigest(*space, "w");
  EXPECT_TRUE(digest.ok()) << digest.status();
  EXPECT_TRUE(digest->collectives.empty() || MayHaveCollectives(*space));
  return *std::move(digest);
}

struct Piece {
  std::string_view name{};
  std::int64_t begin_us = 0, end_us = 0;
  std::int64_t correlation = 0;
};
void AddPieces(PlaneBuilder& plane, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    plane.AddEvent(plane.EventId(piece.name), piece.begin_us * kUs,
                   (piece.end_us - piece.begin_us) * kUs);
    if (piece.correlation != 0)
      plane.AddEventStat(plane.StatId("correlation_id"), piece.correlation);
  }
}

// Breakdown and host times in whole microseconds.
Breakdown Micros(std::int64_t span, std::int64_t compute, std::int64_t communication,
                 std::int64_t exposed_communication, std::int64_t copies,
                 std::int64_t exposed_copies, std::int64_t idle) {
  return {
      span * kUsNs,   compute * kUsNs,        communication * kUsNs, exposed_communication * kUsNs,
      copies * kUsNs, exposed_copies * kUsNs, idle * kUsNs};
}

const Op* FindOp(const Digest& digest, std::string_view name) {
  const auto found = std::find_if(digest.ops.begin(), digest.ops.end(),
                                  [&](const Op& op) { return digest.names[op.name] == name; });
  return found == digest.ops.end() ? nullptr : &*found;
}

// Compute 0-10 and 30-40, communication 5-20, a copy 18-25.
std::string Gpu() {
  PlaneBuilder gpu("/device:GPU:0", 1);
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  AddPieces(gpu, {{"gemm", 0, 10}, {"gemm", 30, 40}});
  gpu.BeginLine(8, "Stream #8(Compute)", 0);
  AddPieces(gpu, {{"ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", 5, 20}});
  gpu.BeginLine(9, "Stream #9(MemcpyD2H)", 0);
  AddPieces(gpu, {{"MemcpyD2H", 18, 25}});
  return gpu.Encode();
}

TEST(ComputeDigest, SplitsTheTimeOfADevice) {
  const Digest digest = DigestOf(Gpu() + Recorded(50));
  ASSERT_EQ(digest.devices.size(), 1u);
  EXPECT_EQ(digest.devices[0].time, Micros(50, 20, 15, 10, 7, 5, 15));
  EXPECT_EQ(digest.time, digest.devices[0].time);
  EXPECT_EQ(digest.devices[0].last_ns, 40 * kUsNs);
  EXPECT_EQ(digest.zero_ns, 1'790'000'000'000'000'000);
  EXPECT_TRUE(digest.knows.device);
  EXPECT_FALSE(digest.knows.steps || digest.knows.launches || digest.knows.input);
}

TEST(MayHaveCollectives, NamesTell) {
  const auto may = [](std::string_view plane_name, std::string_view event) {
    PlaneBuilder plane(plane_name);
    plane.BeginLine(1, "Stream #1", 0);
    AddPieces(plane, {{event, 0, 1}});
    const std::string bytes = plane.Encode();
    return MayHaveCollectives(*xplane::Space::Read(bytes));
  };
  EXPECT_TRUE(may("/device:GPU:0", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"));
  EXPECT_TRUE(may("/device:TPU:0", "all-reduce.1"));
  EXPECT_TRUE(may("/host:CPU", "gloo:all_reduce"));
  EXPECT_FALSE(may("/device:GPU:0", "gemm"));
  EXPECT_FALSE(may("/host:CPU", "train"));
  PlaneBuilder tpu("/device:TPU:0");
  tpu.BeginLine(1, "XLA Ops", 0);
  AddPieces(tpu, {{"fusion.1", 0, 1}});
  tpu.AddEventStat(tpu.StatId("hlo_category"), std::string_view("all-reduce fusion"));
  const std::string bytes = tpu.Encode();
  EXPECT_TRUE(MayHaveCollectives(*xplane::Space::Read(bytes))) << "an event may tell it";
}

TEST(ComputeDigest, WithoutARecordedSpanTakesThatOfTheEvents) {
  const Digest digest = DigestOf(Gpu());
  EXPECT_EQ(digest.devices[0].time, Micros(40, 20, 15, 10, 7, 5, 5));
  EXPECT_EQ(digest.end_ns, 40 * kUsNs);
}

// JAX on AMD's GPUs: lines of copies only, and events that tell what they copy.
TEST(ComputeDigest, LinesAndStatsTellCopiesWhoseNamesDoNot) {
  PlaneBuilder gpu("/device:GPU:0", 1);
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  AddPieces(gpu, {{"gemm", 0, 10}, {"transfer", 10, 15}});
  gpu.AddEventStat(gpu.StatId("memcpy_details"), std::string_view("kind_src:host size:4"));
  gpu.BeginLine(8, "Stream #8(MemcpyOther)", 0);
  AddPieces(gpu, {{"unnamed", 20, 40}});
  gpu.BeginLine(9, "Stream #9(Compute)", 0);
  AddPieces(gpu, {{"fused_all_reduce", 40, 45}});
  gpu.AddEventStat(gpu.StatId("Collective name"), std::string_view("allreduce"));
  const Digest digest = DigestOf(gpu.Encode() + Recorded(50));
  EXPECT_EQ(digest.time, Micros(50, 10, 5, 5, 25, 25, 10));
}

TEST(ComputeDigest, TakesTheMeanOfSeveralDevices) {
  PlaneBuilder second("/device:GPU:1", 2);
  second.BeginLine(7, "Stream #7(Compute)", 0);
  AddPieces(second, {{"gemm", 0, 40}});
  const Digest digest = DigestOf(Gpu() + second.Encode() + Recorded(50));
  EXPECT_EQ(digest.devices[1].time, Micros(50, 40, 0, 0, 0, 0, 10));
  EXPECT_EQ(digest.time.compute_ns, 30 * kUsNs);
  EXPECT_EQ(digest.time.idle_ns, 12'500);
}

TEST(ComputeDigest, EventsOfAStreamMayBeUnsorted) {
  PlaneBuilder gpu("/device:GPU:0", 1);
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  AddPieces(gpu, {{"MemcpyD2H", 18, 25}, {"gemm", 30, 40}, {"nccl", 5, 20}, {"gemm", 0, 10}});
  const Digest digest = DigestOf(gpu.Encode() + Recorded(50));
  EXPECT_EQ(digest.time, Micros(50, 20, 15, 10, 7, 5, 15));
  EXPECT_EQ(FindOp(digest, "gemm")->count, 2u) << "nothing is counted twice";
  EXPECT_EQ(digest.events, 4u);
}

TEST(ComputeDigest, StepsReachToTheNextStep) {
  PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  for (const auto& [number, begin, end] :
       {std::tuple(4, 0, 15), std::tuple(5, 20, 38), std::tuple(7, 40, 45)}) {
    host.AddEvent(host.EventId("train"), begin * kUs, (end - begin) * kUs);
    host.AddEventStat(host.StatId("step_num"), std::int64_t{number});
  }
  const Digest digest = DigestOf(host.Encode() + Gpu() + Recorded(50));
  ASSERT_EQ(digest.steps.size(), 3u);
  EXPECT_EQ(digest.names[digest.steps[0].loop], "train");
  EXPECT_EQ(digest.steps[0].end_ns, 20 * kUsNs);
  EXPECT_EQ(digest.steps[0].annotation_end_ns, 15 * kUsNs);
  EXPECT_TRUE(digest.steps[0].followed);
  EXPECT_EQ(digest.steps[0].time, Micros(20, 10, 15, 10, 2, 0, 0));
  // Step 6 was not recorded, so that it is not known when step 5 was over.
  EXPECT_FALSE(digest.steps[1].followed);
  EXPECT_EQ(digest.steps[1].time, Micros(18, 8, 0, 0, 5, 5, 5));
  EXPECT_EQ(digest.steps[2].time, Micros(5, 0, 0, 0, 0, 0, 5));
}

// A step from 0 to 100: the device works 0-10, 40-50, 70-80 and 90-100. The host waited for input
// 5-25, collected garbage 20-30, launched the work at 40 in time and that at 70 only at 60.
TEST(ComputeDigest, TellsWhyADeviceIdled) {
  PlaneBuilder host(xplane::kHostPlane), gpu("/device:GPU:0", 1);
  host.BeginLine(1, "main", 0);
  host.AddEvent(host.EventId("train"), 0, 100 * kUs);
  host.AddEventStat(host.StatId("step_num"), std::int64_t{1});
  AddPieces(host, {{"next_batch", 5, 25},
                   {"gc.collect", 20, 30},
                   {"cudaLaunchKernel", 8, 9, 11},
                   {"cudaLaunchKernel", 60, 61, 12},
                   {"cudaLaunchKernel", 75, 76, 13}});
  host.BeginLine(2, "loader", 0);
  AddPieces(host, {{"next_batch", 0, 100}});  // Not on the thread of the step.
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  AddPieces(gpu, {{"k", 0, 10, 10}, {"k", 40, 50, 11}, {"k", 70, 80, 12}, {"k", 90, 100, 13}});
  const Digest digest = DigestOf(host.Encode() + gpu.Encode() + Recorded(200));
  ASSERT_EQ(digest.steps.size(), 1u);
  const HostTime& told = digest.steps[0].host;
  EXPECT_EQ(told.input_ns, 20 * kUsNs);
  EXPECT_EQ(told.input_stall_ns, 15 * kUsNs);
  EXPECT_EQ(told.garbage_collection_ns, 5 * kUsNs) << "less what is input already";
  EXPECT_EQ(told.host_bound_ns, 20 * kUsNs) << "50-70";
  EXPECT_TRUE(digest.knows.launches && digest.knows.input && digest.knows.garbage_collection);
  EXPECT_EQ(digest.host_time, told);
}

// Regression: what a GPU waited for its host's collective was the worker's own time.
TEST(ComputeDigest, ADeviceThatWaitsForItsHostsCollectiveCommunicates) {
  PlaneBuilder host(xplane::kHostPlane), gpu("/device:GPU:0", 1);
  host.BeginLine(1, "main", 0);
  host.AddEvent(host.EventId("train"), 0, 100 * kUs);
  host.AddEventStat(host.StatId("step_num"), std::int64_t{1});
  const auto add_operator = [&](std::string_view name, std::int64_t begin, std::int64_t end) {
    host.AddEvent(host.EventId(name), begin * kUs, (end - begin) * kUs);
    host.AddEventStat(host.StatId("cat"), Ref{"cpu_op"});
  };
  AddPieces(host, {{"next_batch", 30, 40}});
  add_operator("c10d::allreduce_", 40, 90);
  add_operator("aten::add", 50, 55);
  host.BeginLine(2, "gloo", 0);
  AddPieces(host, {{"gloo:all_reduce", 5, 80}, {"gloo:all_reduce", 60, 70}});
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  AddPieces(gpu, {{"k", 0, 20}, {"k", 95, 100}});
  const Digest digest = DigestOf(host.Encode() + gpu.Encode() + Recorded(100));
  ASSERT_EQ(digest.steps.size(), 1u);
  // It waits from 20 to 80, less 10 of input and 5 of an operator.
  EXPECT_EQ(digest.steps[0].time, Micros(100, 25, 45, 45, 0, 0, 30));
  EXPECT_EQ(digest.steps[0].host.input_stall_ns, 10 * kUsNs);
  EXPECT_EQ(digest.time, digest.steps[0].time);
  ASSERT_EQ(digest.collectives.size(), 2u);
  EXPECT_EQ(digest.collectives[0].device, kNoDevice);
  EXPECT_EQ(digest.collectives[0].kind, CollectiveKind::kAllReduce);
  EXPECT_FALSE(digest.knows.host_device);
}

TEST(ComputeDigest, AGapAcrossStepsBelongsToBoth) {
  PlaneBuilder host(xplane::kHostPlane), gpu("/device:GPU:0", 1);
  host.BeginLine(1, "main", 0);
  for (std::int64_t step = 0; step < 3; ++step) {
    host.AddEvent(host.EventId("train"), step * 20 * kUs, 20 * kUs);
    host.AddEventStat(host.StatId("step_num"), step);
  }
  AddPieces(host, {{"cudaLaunchKernel", 45, 46, 9}});
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  AddPieces(gpu, {{"k", 0, 15}, {"k", 47, 60, 9}});
  const Digest digest = DigestOf(host.Encode() + gpu.Encode() + Recorded(60));
  ASSERT_EQ(digest.steps.size(), 3u);
  EXPECT_EQ(digest.steps[0].host.host_bound_ns, 5 * kUsNs);
  EXPECT_EQ(digest.steps[1].host.host_bound_ns, 20 * kUsNs);
  EXPECT_EQ(digest.steps[2].host.host_bound_ns, 7 * kUsNs);
  EXPECT_EQ(digest.host_time.host_bound_ns, 32 * kUsNs);
}

// Sums over pieces of work that were painted microsecond by microsecond.
Breakdown Painted(const std::vector<Piece>& pieces, std::int64_t begin, std::int64_t end) {
  Breakdown time;
  time.span_ns = (end - begin) * kUsNs;
  for (std::int64_t at = begin; at < end; ++at) {
    bool compute = false, communication = false, copy = false;
    for (const Piece& piece : pieces) {
      if (at < piece.begin_us || at >= piece.end_us) continue;
      compute = compute || piece.name == "gemm";
      communication = communication || piece.name == "nccl";
      copy = copy || piece.name == "Memset";
    }
    time.compute_ns += compute ? kUsNs : 0;
    time.communication_ns += communication ? kUsNs : 0;
    time.exposed_communication_ns += communication && !compute ? kUsNs : 0;
    time.copies_ns += copy ? kUsNs : 0;
    time.exposed_copies_ns += copy && !compute && !communication ? kUsNs : 0;
    time.idle_ns += !compute && !communication && !copy ? kUsNs : 0;
  }
  return time;
}

TEST(ComputeDigest, AgreesWithTimeThatIsPainted) {
  std::mt19937 random(11);
  const auto below = [&](unsigned limit) { return static_cast<std::int64_t>(random() % limit); };
  for (int round = 0; round < 40; ++round) {
    PlaneBuilder host(xplane::kHostPlane), gpu("/device:GPU:0", 1);
    std::vector<Piece> all;
    for (int stream = 0; stream < 4; ++stream) {
      gpu.BeginLine(stream, StrCat("Stream #", stream, "(Compute)"), 0);
      std::vector<Piece> pieces;
      for (int i = 0; i < 12; ++i) {
        const std::int64_t begin = below(300);
        const char* const names[] = {"gemm", "nccl", "Memset"};
        pieces.push_back({names[below(3)], begin, begin + below(30)});
      }
      if (round % 2 == 0) {
        std::sort(pieces.begin(), pieces.end(),
                  [](const Piece& a, const Piece& b) { return a.begin_us < b.begin_us; });
      }
      AddPieces(gpu, pieces);
      all.insert(all.end(), pieces.begin(), pieces.end());
    }
    host.BeginLine(1, "main", 0);
    std::vector<std::int64_t> begins = {0};
    for (std::int64_t step = 0; step < 5; ++step) {
      host.AddEvent(host.EventId("train"), begins.back() * kUs, kUs);
      host.AddEventStat(host.StatId("step_num"), step);
      begins.push_back(begins.back() + 1 + below(70));
    }
    const Digest digest = DigestOf(host.Encode() + gpu.Encode() + Recorded(350));
    EXPECT_EQ(digest.time, Painted(all, 0, 350));
    for (std::size_t step = 0; step < 4; ++step)
      EXPECT_EQ(digest.steps[step].time, Painted(all, begins[step], begins[step + 1]));
  }
}

TEST(ComputeDigest, ReadsTheLinesOfTpus) {
  PlaneBuilder tpu("/device:TPU:0", 1);
  const auto named = [&](std::string_view name, std::int64_t begin, std::int64_t end) {
    tpu.AddEvent(tpu.EventId(name), begin * kUs, (end - begin) * kUs);
  };
  tpu.BeginLine(1, "Steps", 0);
  named("7", 0, 100);
  tpu.BeginLine(2, "XLA Modules", 0);
  named("jit_step(1)", 0, 100);
  tpu.BeginLine(3, "XLA Ops", 0);
  named("while.1", 0, 60);
  named("fusion.2", 0, 20);
  named("%all-reduce.3 = f32[8] all-reduce(%p), replica_groups={{0,1},{2,3}}, to_apply=%add", 20,
        50);
  named("copy.4", 70, 75);
  named("infeed.5", 80, 90);
  const Digest digest = DigestOf(tpu.Encode() + Recorded(100));
  // The loop itself takes what is left of it: 50-60.
  EXPECT_EQ(digest.time, Micros(100, 30, 30, 30, 5, 5, 35));
  EXPECT_EQ(digest.host_time.input_stall_ns, 10 * kUsNs);
  EXPECT_EQ(FindOp(digest, "while.1")->self_ns, 10 * kUsNs);
  ASSERT_EQ(digest.collectives.size(), 1u);
  const Communicator& group = digest.communicators[digest.collectives[0].communicator];
  EXPECT_EQ(group.name, "{{0,1},{2,3}}");
  EXPECT_EQ(digest.collectives[0].kind, CollectiveKind::kAllReduce);
  EXPECT_FALSE(digest.devices[0].coarse);
}

// XPlanes tell what an operation does once per name; in JSON, each event does.
TEST(ComputeDigest, TakesFromEventsWhatTheirNamesDoNotTell) {
  const Digest of_kinds = DigestOf(PlaneWithKinds() + Recorded(200));
  PlaneBuilder tpu("/device:TPU:0", 1);
  tpu.BeginLine(1, "XLA Ops", 0);
  const auto add = [&](std::string_view name, std::int64_t begin, std::int64_t end,
                       std::string_view category, std::string_view long_name) {
    tpu.AddEvent(tpu.EventId(name), begin * kUs, (end - begin) * kUs);
    tpu.AddEventStat(tpu.StatId("hlo_category"), Ref{category});
    tpu.AddEventStat(tpu.StatId("long_name"), long_name);
  };
  for (const std::int64_t at : {0, 100}) {
    add("fusion.1", at, at + 60, "loop fusion", "%fusion.1 = f32[8] fusion()");
    // More than JavaScript's numbers hold, and XProf's numbers, come as text.
    tpu.AddEventStat(tpu.StatId("flops"), std::string_view("1152921504606846976"));
    tpu.AddEventStat(tpu.StatId("bytes_accessed"), std::int64_t{5});
    add("fusion.2", at + 60, at + 90, "all-reduce fusion", "replica_groups={{0,1}}");
    tpu.AddEventStat(tpu.StatId("bytes_accessed"), std::int64_t{9});
  }
  const Digest of_events = DigestOf(tpu.Encode() + Recorded(200));
  EXPECT_EQ(of_events.time, Micros(200, 120, 60, 60, 0, 0, 20));
  EXPECT_EQ(of_events.time, of_kinds.time);
  EXPECT_EQ(FindOp(of_events, "fusion.2")->kind, WorkKind::kCommunication);
  EXPECT_EQ(of_events.devices[0].flops, std::uint64_t{1} << 61);
  EXPECT_EQ(of_events.devices[0].flops, of_kinds.devices[0].flops);
  EXPECT_EQ(of_events.devices[0].bytes_accessed, 28u);
  EXPECT_EQ(of_events.devices[0].bytes_accessed, of_kinds.devices[0].bytes_accessed);
  ASSERT_EQ(of_events.collectives.size(), 2u);
  EXPECT_EQ(of_events.communicators[of_events.collectives[0].communicator].name, "{{0,1}}");
}

// Programs share names: what is "fusion.2" in one may do something else in another.
TEST(ComputeDigest, EventsOfOneNameMayDiffer) {
  PlaneBuilder tpu("/device:TPU:0", 1);
  tpu.BeginLine(1, "XLA Ops", 0);
  for (const std::int64_t at : {0, 100}) {
    tpu.AddEvent(tpu.EventId("fusion.2"), at * kUs, 10 * kUs);
    tpu.AddEventStat(tpu.StatId("hlo_category"),
                     std::string_view(at == 0 ? "loop fusion" : "all-reduce fusion"));
    tpu.AddEvent(tpu.EventId("copy.3"), (at + 20) * kUs, 5 * kUs);
  }
  const Digest digest = DigestOf(tpu.Encode() + Recorded(200));
  EXPECT_EQ(digest.time, Micros(200, 10, 10, 10, 10, 10, 170));
}

std::string SparseCore(int number) {
  PlaneBuilder core(StrCat("/device:TPU:0 SparseCore ", number), 2 + number);
  core.BeginLine(1, "Sparse Core Steps", 0);
  AddPieces(core, {{"7", 0, 100}});
  core.BeginLine(2, "Sparse Core Modules", 0);
  AddPieces(core, {{"jit_step(1)", 0, 100}});
  core.BeginLine(3, "Sparse Core Ops", 0);
  AddPieces(core, {{"fusion.2", 20, 30}});
  return core.Encode();
}

TEST(ComputeDigest, IdleSparseCoresDoNotMakeTheirTpuLessBusy) {
  PlaneBuilder host(xplane::kHostPlane), tpu("/device:TPU:0", 1);
  host.BeginLine(1, "main", 0);
  host.AddEvent(host.EventId("train"), 0, 100 * kUs);
  host.AddEventStat(host.StatId("step_num"), std::int64_t{7});
  tpu.BeginLine(3, "XLA Ops", 0);
  AddPieces(tpu, {{"fusion.1", 0, 90}});
  std::string trace = host.Encode() + tpu.Encode() + Recorded(100);
  for (int core = 0; core < 4; ++core) trace += SparseCore(core);
  const Digest digest = DigestOf(trace);
  EXPECT_EQ(digest.time, Micros(100, 90, 0, 0, 0, 0, 10));
  ASSERT_EQ(digest.steps.size(), 1u);
  EXPECT_EQ(digest.steps[0].time, digest.time);
  ASSERT_EQ(digest.devices.size(), 5u) << "they are told separately";
  EXPECT_EQ(digest.devices[4].name, "/device:TPU:0 SparseCore 3");
  EXPECT_EQ(digest.devices[4].time, Micros(100, 10, 0, 0, 0, 0, 90)) << "only its operations work";
  EXPECT_FALSE(digest.devices[4].coarse);
  EXPECT_FALSE(DigestOf(SparseCore(0) + Recorded(100)).knows.device) << "there is no mean";
}

TEST(ComputeDigest, JoinsTheTwoPartsOfAnAsynchronousCollective) {
  PlaneBuilder tpu("/device:TPU:0", 1);
  tpu.BeginLine(3, "XLA Ops", 0);
  AddPieces(tpu, {{"all-reduce-start.1", 0, 1},
                  {"all-reduce-start.2", 5, 6},
                  {"fusion", 10, 20},
                  {"all-reduce-done.1", 20, 24},
                  {"all-reduce-done.2", 30, 31}});
  const Digest digest = DigestOf(tpu.Encode() + Recorded(40));
  ASSERT_EQ(digest.collectives.size(), 2u);
  EXPECT_EQ(digest.collectives[0].begin_ns, 0);
  EXPECT_EQ(digest.collectives[0].end_ns, 24 * kUsNs);
  EXPECT_EQ(digest.collectives[1].begin_ns, 5 * kUsNs);
  EXPECT_EQ(digest.names[digest.collectives[1].name], "all-reduce-start.2");
}

TEST(ComputeDigest, ALineOfAsynchronousOperationsShowsThemWhole) {
  PlaneBuilder tpu("/device:TPU:0", 1);
  tpu.BeginLine(3, "XLA Ops", 0);
  AddPieces(tpu, {{"all-reduce-start.1", 0, 1}, {"fusion", 10, 20}, {"all-reduce-done.1", 25, 30}});
  tpu.BeginLine(4, "Async XLA Ops", 0);
  AddPieces(tpu, {{"all-reduce-start.1", 0, 30}});
  const Digest digest = DigestOf(tpu.Encode() + Recorded(40));
  EXPECT_EQ(digest.time, Micros(40, 10, 30, 20, 0, 0, 10));
  ASSERT_EQ(digest.collectives.size(), 1u);
  EXPECT_EQ(digest.collectives[0].end_ns, 30 * kUsNs);
}

TEST(ComputeDigest, SaysWhenOnlyProgramsAreTold) {
  PlaneBuilder tpu("/device:TPU:0", 1);
  tpu.BeginLine(2, "XLA Modules", 0);
  AddPieces(tpu, {{"jit_all-reduce(1)", 0, 30}});
  const Digest digest = DigestOf(tpu.Encode() + Recorded(40));
  EXPECT_TRUE(digest.devices[0].coarse);
  EXPECT_EQ(digest.time, Micros(40, 30, 0, 0, 0, 0, 10));
}

TEST(ComputeDigest, ReadsWhatPyTorchTellsOfCollectives) {
  PlaneBuilder gpu("/device:GPU:0", 1), environment(xplane::kTaskEnvironmentPlane);
  environment.AddPlaneStat("distributedInfo",
                           std::string_view(R"({"backend": "nccl", "rank": 3, "world_size": 16,
                               "pg_config": [{"pg_name": "tp1", "pg_desc": "mesh_tp", "pg_size": 2,
                                              "ranks": [2, 3]}]})"));
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  for (std::int64_t i = 0; i < 4; ++i) {
    const bool tensor = i % 2 == 1;
    gpu.AddEvent(gpu.EventId("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(Args<4096ul>)"),
                 i * 10 * kUs, 5 * kUs);
    gpu.AddEventStat(gpu.StatId("Process Group Name"), Ref{tensor ? "tp1" : "0"});
    gpu.AddEventStat(gpu.StatId("Process Group Description"),
                     Ref{tensor ? "mesh_tp" : "undefined"});
    gpu.AddEventStat(gpu.StatId("Process Group Ranks"), Ref{tensor ? "[2, 3]" : "[0, 1, 2, ...]"});
    gpu.AddEventStat(gpu.StatId("Group size"), std::int64_t{tensor ? 2 : 16});
    gpu.AddEventStat(gpu.StatId("In msg nelems"), std::int64_t{1000});
    gpu.AddEventStat(gpu.StatId("dtype"), Ref{"BFloat16"});
    gpu.AddEventStat(gpu.StatId("Seq"), 100 + i);
  }
  const Digest digest = DigestOf(environment.Encode() + gpu.Encode());
  EXPECT_EQ(digest.rank, 3u);
  EXPECT_EQ(digest.world_size, 16u);
  EXPECT_EQ(digest.groups,
            (std::vector<Communicator>{{.name = "tp1 mesh_tp", .size = 2, .ranks = {2, 3}}}));
  ASSERT_EQ(digest.collectives.size(), 4u);
  EXPECT_EQ(digest.names[digest.collectives[0].name], "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
  const Collective& last = digest.collectives[3];
  EXPECT_EQ(last.ordinal, 1u);
  EXPECT_EQ(last.bytes, 2000u);
  EXPECT_EQ(last.sequence, 103);
  EXPECT_EQ(last.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(last.device, 0u);
  const Communicator& tensor = digest.communicators[last.communicator];
  EXPECT_EQ(tensor.name, "tp1 mesh_tp");
  EXPECT_THAT(tensor.ranks, ElementsAre(2, 3));
  const Communicator& all = digest.communicators[digest.collectives[0].communicator];
  EXPECT_EQ(all.name, "0");
  EXPECT_EQ(all.size, 16u);
  EXPECT_TRUE(all.ranks.empty()) << "the list is cut";
}

TEST(ComputeDigest, TakesOperationsOnTheHostForWorkIfThereIsNoDevice) {
  PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "python", 0);
  host.AddEvent(host.EventId("train"), 0, 100 * kUs);
  host.AddEventStat(host.StatId("step_num"), std::int64_t{1});
  AddPieces(host, {{"input", 0, 20}});
  const auto op = [&](std::string_view name, std::int64_t begin, std::int64_t end) {
    AddPieces(host, {{name, begin, end}});
    host.AddEventStat(host.StatId("hlo_op"), Ref{name});
  };
  op("convert.9", 5, 8);  // While the thread loads its input.
  host.BeginLine(2, "tf_XLAEigen/1", 0);
  op("dot.2", 30, 50);
  op("call.1", 25, 50);  // Ends last, and is written last.
  op("all-reduce.3", 60, 80);
  host.BeginLine(3, "tf_XLAEigen/2", 0);
  op("dot.2", 70, 90);
  const Digest digest = DigestOf(host.Encode() + Recorded(100));
  EXPECT_TRUE(digest.knows.host_device);
  EXPECT_EQ(digest.time, Micros(100, 45, 20, 10, 0, 0, 45));
  EXPECT_EQ(digest.steps[0].host.input_stall_ns, 20 * kUsNs);
  EXPECT_EQ(FindOp(digest, "dot.2")->kind, WorkKind::kCompute);
  EXPECT_EQ(FindOp(digest, "call.1")->self_ns, 5 * kUsNs);
  ASSERT_EQ(digest.collectives.size(), 1u);
  EXPECT_EQ(digest.collectives[0].device, kNoDevice);
}

// A plane of a device on which memory was allocated and nothing ran.
std::string UnusedGpu(int number) {
  PlaneBuilder gpu(StrCat("/device:GPU:", number), 100 + number);
  gpu.BeginLine(1, xplane::kCounterLine, 0);
  gpu.AddEvent(gpu.EventId("Total Allocated"), 0, 0);
  gpu.AddEventStat(gpu.StatId("Total Allocated"), std::int64_t{512});
  return gpu.Encode();
}

TEST(ComputeDigest, ADeviceOnWhichNothingRanDoesNotMakeTheOthersLessBusy) {
  PlaneBuilder host(xplane::kHostPlane), gpu("/device:GPU:3", 1), empty("/device:GPU:1", 2);
  host.BeginLine(1, "main", 0);
  host.AddEvent(host.EventId("train"), 0, 100 * kUs);
  host.AddEventStat(host.StatId("step_num"), std::int64_t{7});
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  AddPieces(gpu, {{"gemm", 0, 80}});
  const Digest digest =
      DigestOf(host.Encode() + UnusedGpu(0) + empty.Encode() + gpu.Encode() + Recorded(100));
  EXPECT_EQ(digest.time, Micros(100, 80, 0, 0, 0, 0, 20));
  EXPECT_EQ(digest.steps[0].time, digest.time);
  ASSERT_EQ(digest.devices.size(), 3u);
  EXPECT_EQ(digest.devices[0].peak_memory_bytes, 512u) << "they are listed all the same";
  EXPECT_TRUE(digest.knows.device);
}

TEST(ComputeDigest, TakesTheHostsWorkIfNothingRanOnAnyDevice) {
  PlaneBuilder host(xplane::kHostPlane), empty("/device:GPU:1", 2);
  host.BeginLine(1, "pool", 0);
  AddPieces(host, {{"dot.2", 30, 50}});
  host.AddEventStat(host.StatId("hlo_op"), Ref{"dot.2"});
  for (const std::string& device : {empty.Encode(), UnusedGpu(0)}) {
    const Digest digest = DigestOf(device + host.Encode() + Recorded(100));
    EXPECT_TRUE(digest.knows.host_device);
    EXPECT_EQ(digest.time, Micros(100, 20, 0, 0, 0, 0, 80));
  }
}

TEST(ComputeDigest, WithoutAnyWorkKnowsOnlySteps) {
  PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "python", 0);
  host.AddEvent(host.EventId("train"), 0, 100 * kUs);
  host.AddEventStat(host.StatId("step_num"), std::int64_t{1});
  const Digest digest = DigestOf(host.Encode());
  EXPECT_FALSE(digest.knows.device);
  EXPECT_TRUE(digest.knows.steps);
  EXPECT_EQ(digest.time, Breakdown{});
  EXPECT_EQ(DigestOf("").events, 0u);
}

TEST(ComputeDigest, ReadsClockAndRankOfTheCapture) {
  PlaneBuilder strobe(xplane::kStrobePlane);
  strobe.AddPlaneStat("rank", std::int64_t{5});
  strobe.AddPlaneStat("clock_offset_ns", std::int64_t{-77});
  strobe.AddPlaneStat("clock_error_ns", std::int64_t{9});
  const Digest digest = DigestOf(strobe.Encode());
  EXPECT_EQ(digest.rank, 5u);
  EXPECT_EQ(digest.clock_offset_ns, -77);
  EXPECT_EQ(digest.clock_error_ns, 9);
}

// XProf's JSON tells no start. Its lines may have Unix times, as convert::ReadSpace finds out.
TEST(ComputeDigest, TakesTheZeroThatTheLinesTold) {
  constexpr std::int64_t kZero = 1'790'000'000'000'000'000;
  const std::string trace = Gpu();
  const xplane::Space space = *xplane::Space::Read(trace);
  EXPECT_EQ(ComputeDigest(space, "w")->zero_ns, 0);
  const absl::StatusOr<Digest> digest = ComputeDigest(space, "w", nullptr, kZero);
  EXPECT_EQ(digest->zero_ns, kZero);
  EXPECT_EQ(digest->end_ns, 40 * kUsNs) << "times count from it";
}

TEST(ComputeDigest, ReadsFlopsAndMemory) {
  PlaneBuilder host(xplane::kHostPlane), gpu("/device:GPU:0", 1);
  gpu.AddPlaneStat("memory_size", std::int64_t{1000});
  gpu.AddPlaneStat("peak_teraflops_per_second", 2.5);
  gpu.BeginLine(1, xplane::kCounterLine, 0);
  for (const std::int64_t bytes : {10, 700, 30}) {
    gpu.AddEvent(gpu.EventId("Total Allocated"), 0, 0);
    gpu.AddEventStat(gpu.StatId("Total Allocated"), bytes);
  }
  host.BeginLine(1, "main", 0);
  for (int i = 0; i < 2; ++i) {
    host.AddEvent(host.EventId("aten::mm"), i * kUs, kUs);
    host.AddEventStat(host.StatId("flops"), std::int64_t{42});
  }
  const Digest digest = DigestOf(host.Encode() + gpu.Encode());
  EXPECT_FALSE(digest.knows.device) << "nothing ran on it";
  EXPECT_EQ(digest.devices[0].peak_memory_bytes, 700u);
  EXPECT_EQ(digest.devices[0].memory_bytes, 1000u);
  EXPECT_EQ(digest.devices[0].peak_flops, 2'500'000'000'000u);
  EXPECT_EQ(FindOp(digest, "aten::mm")->flops, 84u);
}

TEST(ComputeDigest, SurvivesTimesThatCannotBe) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  PlaneBuilder host(xplane::kHostPlane), gpu("/device:GPU:0", 1);
  host.BeginLine(1, "main", kHuge);
  host.AddEvent(host.EventId("train"), kHuge, kHuge);
  host.AddEventStat(host.StatId("step_num"), kHuge);
  gpu.BeginLine(7, "Stream #7(Compute)", -kHuge);
  gpu.AddEvent(gpu.EventId("k"), -kHuge, kHuge);
  gpu.AddEvent(gpu.EventId("k"), kHuge, -5);
  const Digest digest = DigestOf(host.Encode() + gpu.Encode() + Recorded(10));
  EXPECT_EQ(digest.steps.size(), 1u);
  EXPECT_EQ(digest.time.span_ns, 10 * kUsNs);
}

TEST(ComputeDigest, KeepsSoManyDevices) {
  std::string trace;
  for (int i = 0; i < 300; ++i) {
    PlaneBuilder gpu(StrCat("/device:GPU:", i), i);
    gpu.BeginLine(7, "Stream #7(Compute)", 0);
    AddPieces(gpu, {{"k", 0, 10}});
    trace += gpu.Encode();
  }
  const Digest digest = DigestOf(trace);
  EXPECT_EQ(digest.devices.size(), 256u);
  EXPECT_EQ(digest.cuts.devices, 44u);
  EXPECT_EQ(digest.time.compute_ns, 10 * kUsNs);
}

// The host has as many different durations as are counted, and one more.
TEST(ComputeDigest, ManyDurationsOnTheHostHideNoneOfADevice) {
  constexpr std::uint32_t kBuckets = 1024;
  PlaneBuilder host(xplane::kHostPlane), gpu("/device:GPU:0", 1);
  host.BeginLine(1, "main", 0);
  std::int64_t now = 0;
  for (std::size_t i = 0; i < Durations::kMaxPairs; ++i) {
    const auto bucket = static_cast<std::uint32_t>(i % kBuckets);
    const std::int64_t length = Durations::MiddleOf(bucket);
    host.AddEvent(host.EventId(StrCat("op", i / kBuckets)), now, length);
    now += length;
  }
  host.AddEvent(host.EventId("one more"), now, kUs);
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  AddPieces(gpu, {{"gemm", 0, 10}});
  const Digest digest = DigestOf(host.Encode() + gpu.Encode());
  ASSERT_NE(FindOp(digest, "one more"), nullptr);
  EXPECT_FALSE(FindOp(digest, "one more")->knows_quantiles());
  EXPECT_TRUE(FindOp(digest, "op0")->knows_quantiles());
  EXPECT_NEAR(static_cast<double>(FindOp(digest, "gemm")->p50_ns), 10'000, 200);
  const nlohmann::ordered_json json = DigestToJson(digest);
  for (const nlohmann::ordered_json& op : json["ops"])
    EXPECT_EQ(op["p50Ns"].is_null(), op["name"] == "one more") << op;
}

TEST(ComputeDigest, RefusesADamagedTrace) {
  std::string trace = Gpu();
  const std::size_t event = trace.find("Stream #9(MemcpyD2H)") + 22;
  const absl::StatusOr<xplane::Space> whole = xplane::Space::Read(trace);
  ASSERT_TRUE(whole.ok());
  int refused = 0;
  for (std::size_t i = event; i < event + 10; ++i) {
    std::string damaged = trace;
    damaged[i] = '\xff';
    const absl::StatusOr<xplane::Space> space = xplane::Space::Read(damaged);
    if (space.ok() && !ComputeDigest(*space, "w").ok()) ++refused;
  }
  EXPECT_GT(refused, 0);
}

// The scheduler may be another thread or process.
TEST(ComputeDigest, IterationsOfServersHaveTheirBatchAndWhatRanBefore) {
  PlaneBuilder scheduler("/host:CPU EngineCore");
  scheduler.BeginLine(1, "main", 0);
  const auto plan = [&](std::int64_t at_us, std::int64_t running) {
    scheduler.AddEvent(scheduler.EventId("engine.schedule"), at_us * kUs, kUs);
    scheduler.AddEventStat(scheduler.StatId("running"), running);
  };
  plan(1, 0);
  plan(21, 1);
  PlaneBuilder worker("/host:CPU Worker");
  worker.BeginLine(2, "main", 0);
  const auto run = [&](std::int64_t number, std::int64_t at_us, std::int64_t prefill,
                       std::int64_t decode) {
    worker.AddEvent(worker.EventId("engine"), at_us * kUs, 10 * kUs);
    worker.AddEventStat(worker.StatId("step_num"), number);
    worker.AddEventStat(worker.StatId("prefill_requests"), prefill > 0 ? std::int64_t{1} : 0);
    worker.AddEventStat(worker.StatId("prefill_tokens"), prefill);
    worker.AddEventStat(worker.StatId("decode_requests"), decode);
    worker.AddEventStat(worker.StatId("decode_tokens"), decode);
    worker.AddEventStat(worker.StatId("running"), std::int64_t{9});
  };
  run(1, 5, 468, 0);
  run(2, 25, 0, 4);
  run(3, 45, 0, -4);  // A trace may tell anything.
  run(4, 60, 0, 5);
  const Digest digest = DigestOf(scheduler.Encode() + worker.Encode());
  ASSERT_EQ(digest.steps.size(), 4u);
  EXPECT_EQ(digest.steps[0].batch, (Batch{.prefill_requests = 1,
                                          .prefill_tokens = 468,
                                          .decode_requests = 0,
                                          .decode_tokens = 0,
                                          .running_before = 0}));
  EXPECT_EQ(digest.steps[1].batch.decode_requests, 4);
  EXPECT_EQ(digest.steps[1].batch.running_before, 1);
  EXPECT_FALSE(digest.steps[2].batch.any());
  EXPECT_EQ(digest.steps[3].batch.running_before, -1) << "its plan is not in the trace";
}

// Regression: ids that are multiples of a std::unordered_map's number of buckets were all in one.
TEST(ComputeDigest, IdsThatCollideAreFoundAsFast) {
  constexpr std::int64_t kBuckets = 42'043, kIds = 40'000;
  PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  for (std::int64_t i = 1; i <= kIds; ++i) host.AddEvent(i * kBuckets, i * kUs, kUs);
  for (std::int64_t i = 1; i <= 700'000; ++i) host.AddEvent(kBuckets, (kIds + i) * kUs, kUs);
  EXPECT_EQ(DigestOf(host.Encode()).events, 740'000u);
}

}  // namespace
}  // namespace strobe::digest
