#include "collector/trace/tally/tally.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "collector/trace/digest/compute_digest.h"
#include "collector/trace/xplane/names.h"
#include "common/base/strings.h"
#include "tests/unit/collector/kind_plane.h"
#include "tests/unit/collector/trace/tally/made_trace.h"

namespace strobe::tally {
namespace {

constexpr std::int64_t kUs = 1'000'000;

// Adds an event with a category, as Kineto's have.
void AddHostEvent(xplane::PlaneBuilder& host, std::string_view name, std::string_view category,
                  std::int64_t begin_us, std::int64_t length_us, std::uint64_t launches = 0) {
  host.AddEvent(host.EventId(name), begin_us * kUs, length_us * kUs);
  host.AddEventStat(host.StatId("cat"), xplane::Ref{category});
  if (launches > 0) host.AddEventStat(host.StatId("correlation_id"), launches);
}

void AddKernel(xplane::PlaneBuilder& gpu, std::string_view name, std::int64_t begin_us,
               std::int64_t length_us, std::uint64_t launch, std::string_view details = "") {
  gpu.AddEvent(gpu.EventId(name), begin_us * kUs, length_us * kUs);
  gpu.AddEventStat(gpu.StatId("correlation_id"), launch);
  if (!details.empty()) gpu.AddEventStat(gpu.StatId("kernel_details"), xplane::Ref{details});
}

// One step of a module whose two operators launch three kernels:
//   ProfilerStep#1          0..100
//     nn.Module: Linear_0   5..85
//       model.py(3)        10..80
//         aten::linear     10..70
//           aten::addmm    20..60, launches gemm (30 us) at 25..30 and again (50 us) at 40..45
//         aten::relu       70..78, launches relu (7 us) at 71..73
std::string LinearStep() {
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "python", 0);
  AddHostEvent(host, "ProfilerStep#1", "user_annotation", 0, 100);
  AddHostEvent(host, "nn.Module: Linear_0", "python_function", 5, 80);
  AddHostEvent(host, "model.py(3): forward", "python_function", 10, 70);
  AddHostEvent(host, "aten::linear", "cpu_op", 10, 60);
  AddHostEvent(host, "aten::addmm", "cpu_op", 20, 40);
  AddHostEvent(host, "cudaLaunchKernel", "cuda_runtime", 25, 5, 1);
  AddHostEvent(host, "cudaLaunchKernel", "cuda_runtime", 40, 5, 2);
  AddHostEvent(host, "aten::relu", "cpu_op", 70, 8);
  AddHostEvent(host, "cudaLaunchKernel", "cuda_runtime", 71, 2, 3);
  host.BeginLine(2, "profiler", 0);
  AddHostEvent(host, "PyTorch Profiler (0)", "Trace", 0, 200);
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  AddKernel(gpu, "ampere_fp16_s1688gemm", 30, 30, 1,
            "regs:32 static_shared:1024 dynamic_shared:0 grid:8,1,1 block:128,1,1 occ_pct:20");
  AddKernel(gpu, "ampere_fp16_s1688gemm", 60, 50, 2,
            "regs:32 static_shared:1024 dynamic_shared:0 grid:8,1,1 block:128,1,1 occ_pct:60");
  AddKernel(gpu, "relu", 110, 7, 3);
  return host.Encode() + gpu.Encode();
}

TEST(TallyTrace, SumsKernelsWithHowTheyWereLaunched) {
  const MadeTrace trace(LinearStep());
  const Tally tally = *TallyTrace(trace.source());
  ASSERT_EQ(tally.kernels.rows.size(), 2u);
  const TallyRow& gemm = tally.kernels.rows[0];
  EXPECT_EQ(gemm.name, "ampere_fp16_s1688gemm");
  EXPECT_EQ(gemm.kind, "kernel");
  EXPECT_EQ(gemm.count, 2u);
  EXPECT_EQ(gemm.total_ps, 80 * kUs);
  EXPECT_EQ(gemm.self_ps, 80 * kUs);
  EXPECT_EQ(gemm.max_ps, 50 * kUs);
  EXPECT_EQ(gemm.launch, "regs:32 static_shared:1024 dynamic_shared:0 grid:8,1,1 block:128,1,1");
  EXPECT_FALSE(gemm.launches_differ) << "the occupancy is no part of the launch";
  EXPECT_DOUBLE_EQ(gemm.occupancy_ps / gemm.occupancy_of_ps, (20.0 * 30 + 60.0 * 50) / 80);
  EXPECT_EQ(gemm.launched_by, "aten::addmm");
  EXPECT_FALSE(gemm.launchers_differ);
  EXPECT_TRUE(UsesTensorCores(gemm.name));
  EXPECT_EQ(RowNamed(tally.kernels, "relu").launched_by, "aten::relu");
  EXPECT_EQ(tally.device_ps, 87 * kUs);
}

// The self times are those of PyTorch's key_averages(): what its functions take does not count.
TEST(TallyTrace, SumsOperatorsWithTheWorkThatTheyLaunched) {
  const MadeTrace trace(LinearStep());
  const Tally tally = *TallyTrace(trace.source());
  EXPECT_TRUE(tally.joins_launches);
  struct Expected {
    std::int64_t total, self, device, device_self;
  };
  const std::map<std::string, Expected> expected = {
      {"ProfilerStep*", {100, 100 - 60 - 8, 87, 0}}, {"aten::linear", {60, 60 - 40, 80, 0}},
      {"aten::addmm", {40, 40 - 10, 80, 80}},        {"aten::relu", {8, 8 - 2, 7, 7}},
      {"cudaLaunchKernel", {12, 12, 0, 0}},
  };
  ASSERT_EQ(tally.operators.rows.size(), expected.size());
  for (const auto& [name, times] : expected) {
    const TallyRow& row = RowNamed(tally.operators, name);
    EXPECT_EQ(row.total_ps, times.total * kUs) << name;
    EXPECT_EQ(row.self_ps, times.self * kUs) << name;
    EXPECT_EQ(row.device_ps, times.device * kUs) << name;
    EXPECT_EQ(row.device_self_ps, times.device_self * kUs) << name;
  }
  EXPECT_EQ(RowNamed(tally.operators, "cudaLaunchKernel").kind, "runtime");
  ASSERT_EQ(tally.modules.rows.size(), 1u);
  const TallyRow& module = tally.modules.rows[0];
  EXPECT_EQ(module.name, "nn.Module: Linear_0");
  EXPECT_EQ(module.total_ps, 80 * kUs);
  EXPECT_EQ(module.device_ps, 87 * kUs);
}

// A correlation and an arrow may both tell of a launch, also of one that launches a whole graph.
TEST(TallyTrace, ALaunchThatIsToldTwiceCountsOnce) {
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "python", 0);
  AddHostEvent(host, "replay", "user_annotation", 0, 50);
  AddHostEvent(host, "cudaGraphLaunch", "cuda_runtime", 10, 20, 5);
  host.AddEventStat(host.StatId("flow"), std::uint64_t{77} << 2 | 2);
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  for (const std::int64_t begin : {40, 60, 80}) {
    AddKernel(gpu, "gemm", begin, 7, 5);
    gpu.AddEventStat(gpu.StatId("flow"), std::uint64_t{77} << 2 | 1);
  }
  const MadeTrace trace(host.Encode() + gpu.Encode());
  const Tally tally = *TallyTrace(trace.source());
  EXPECT_EQ(RowNamed(tally.operators, "replay").device_ps, 3 * 7 * kUs);
}

// PyTorch's scheduler ends a step in another call of Python than the one in which it began it, so
// that the step nests with neither.
TEST(TallyTrace, OperatorsNestWhateverPythonsFunctionsDo) {
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "python", 0);
  AddHostEvent(host, "profiler.py(1): step", "python_function", 0, 50);
  AddHostEvent(host, "ProfilerStep#1", "user_annotation", 40, 80);
  AddHostEvent(host, "nn.Module: Linear_0", "python_function", 55, 40);
  AddHostEvent(host, "aten::addmm", "cpu_op", 60, 30);
  AddHostEvent(host, "cudaLaunchKernel", "cuda_runtime", 65, 5, 1);
  AddHostEvent(host, "profiler.py(1): step", "python_function", 100, 50);
  AddHostEvent(host, "cudaDeviceSynchronize", "cuda_runtime", 105, 10);
  // What overlaps without nesting has the time of the one around both.
  AddHostEvent(host, "outer", "user_annotation", 200, 100);
  AddHostEvent(host, "first", "user_annotation", 210, 40);
  AddHostEvent(host, "second", "user_annotation", 230, 40);
  AddHostEvent(host, "inner", "user_annotation", 235, 10);
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  AddKernel(gpu, "gemm", 70, 7, 1);
  const MadeTrace trace(host.Encode() + gpu.Encode());
  const Tally tally = *TallyTrace(trace.source());
  const TallyRow& step = RowNamed(tally.operators, "ProfilerStep*");
  EXPECT_EQ(step.total_ps, 80 * kUs);
  EXPECT_EQ(step.self_ps, (80 - 30 - 10) * kUs);
  EXPECT_EQ(step.device_ps, 7 * kUs);
  EXPECT_EQ(RowNamed(tally.modules, "nn.Module: Linear_0").device_ps, 7 * kUs);
  EXPECT_EQ(RowNamed(tally.operators, "outer").self_ps, (100 - 40 - 40) * kUs);
  EXPECT_EQ(RowNamed(tally.operators, "first").self_ps, 40 * kUs);
  EXPECT_EQ(RowNamed(tally.operators, "second").self_ps, (40 - 10) * kUs);
}

// PyTorch's averages leave out an operator that only calls one of its own name.
TEST(TallyTrace, AnOperatorThatOnlyCallsItselfCountsOnce) {
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "python", 0);
  for (const std::int64_t begin : {0, 200}) {
    AddHostEvent(host, "aten::to", "cpu_op", begin, 100);
    AddHostEvent(host, "aten::to", "cpu_op", begin + 10, 80);
    AddHostEvent(host, "aten::to", "cpu_op", begin + 20, 60);
    AddHostEvent(host, "aten::copy_", "cpu_op", begin + 30, 10);
    // The second one calls two.
    if (begin == 200) AddHostEvent(host, "aten::to", "cpu_op", begin + 50, 5);
  }
  const MadeTrace trace(host.Encode());
  const Tally tally = *TallyTrace(trace.source());
  const TallyRow& row = RowNamed(tally.operators, "aten::to");
  EXPECT_EQ(row.count, 1u + 2u);
  EXPECT_EQ(row.total_ps, (100 + 100 + 5) * kUs);
  EXPECT_EQ(row.self_ps, (90 + 90) * kUs);
  EXPECT_EQ(row.max_ps, 100 * kUs);
}

// Two steps of a gemm and an all-reduce that overlaps with it for a while.
std::string Overlapping() {
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  AddKernel(gpu, "gemm", 0, 40, 1);
  AddKernel(gpu, "gemm", 60, 20, 2);
  gpu.BeginLine(8, "Stream #8(Compute)", 0);
  AddKernel(gpu, "gemm", 35, 10, 3);
  gpu.BeginLine(9, "Stream #9(Compute)", 0);
  const auto add_call = [&](std::int64_t begin_us, std::int64_t length_us) {
    AddKernel(gpu, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", begin_us,
              length_us, 9);
    gpu.AddEventStat(gpu.StatId("Process Group Name"), xplane::Ref{"0"});
    gpu.AddEventStat(gpu.StatId("Process Group Description"), xplane::Ref{"default_pg"});
    gpu.AddEventStat(gpu.StatId("Group size"), std::int64_t{4});
    gpu.AddEventStat(gpu.StatId("In msg nelems"), std::int64_t{1'000'000});
    gpu.AddEventStat(gpu.StatId("dtype"), xplane::Ref{"Float"});
  };
  add_call(30, 40);   // Hidden from 30 to 45 and from 60 to 70: 15 us are exposed.
  add_call(100, 10);  // Nothing computes.
  gpu.BeginLine(10, "Stream #10(MemcpyH2D)", 0);
  AddKernel(gpu, "Memcpy HtoD (Pinned -> Device)", 45, 15, 4);  // A copy is no computation.
  return gpu.Encode();
}

TEST(TallyTrace, TellsBandwidthAndExposureOfCollectives) {
  const MadeTrace trace(Overlapping());
  const Tally tally = *TallyTrace(trace.source());
  ASSERT_EQ(tally.communication.rows.size(), 1u);
  const TallyRow& call = tally.communication.rows[0];
  EXPECT_EQ(call.name, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  EXPECT_EQ(call.group, "0 default_pg");
  EXPECT_EQ(call.ranks, 4u);
  EXPECT_EQ(call.count, 2u);
  EXPECT_EQ(call.total_ps, 50 * kUs);
  EXPECT_EQ(call.bytes, 8'000'000u);
  EXPECT_EQ(call.exposed_ps, 25 * kUs);
  EXPECT_DOUBLE_EQ(call.bytes_per_s, 8e6 / 50e-6);
  EXPECT_DOUBLE_EQ(call.BusBytesPerSecond(), 8e6 / 50e-6 * 2 * 3 / 4);
  EXPECT_EQ(RowNamed(tally.kernels, "Memcpy HtoD (Pinned -> Device)").kind, "copy");
}

// As nccl-tests' PERFORMANCE.md has them.
TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor(digest::CollectiveKind::kAllReduce, 8), 2.0 * 7 / 8);
  EXPECT_DOUBLE_EQ(BusFactor(digest::CollectiveKind::kAllGather, 8), 7.0 / 8);
  EXPECT_DOUBLE_EQ(BusFactor(digest::CollectiveKind::kReduceScatter, 8), 7.0 / 8);
  EXPECT_DOUBLE_EQ(BusFactor(digest::CollectiveKind::kAllToAll, 8), 7.0 / 8);
  EXPECT_DOUBLE_EQ(BusFactor(digest::CollectiveKind::kBroadcast, 8), 1);
  EXPECT_DOUBLE_EQ(BusFactor(digest::CollectiveKind::kAllReduce, 0), 0) << "the group is not known";
  EXPECT_DOUBLE_EQ(BusFactor(digest::CollectiveKind::kBarrier, 8), 0);
}

TEST(UsesTensorCores, GoesByTheName) {
  EXPECT_TRUE(UsesTensorCores("volta_h884gemm_64x64_ldg8_nn"));
  EXPECT_TRUE(UsesTensorCores("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n"));
  EXPECT_FALSE(UsesTensorCores("void at::native::vectorized_elementwise_kernel<4>"));
}

// The counts and times of a device's work are those of the digest, from which reports are made.
void ExpectDigestsNumbers(const std::string& xspace) {
  const MadeTrace trace(xspace);
  const Tally tally = *TallyTrace(trace.source());
  const digest::Digest digest = *digest::ComputeDigest(trace.made.space, "w");
  std::size_t compared = 0;
  for (const digest::Op& op : digest.ops) {
    if (op.kind == digest::WorkKind::kHost || op.kind == digest::WorkKind::kScope) continue;
    const TallyRow& row = RowNamed(tally.kernels, digest.names[op.name]);
    EXPECT_EQ(row.count, op.count) << row.name;
    EXPECT_EQ(row.total_ps / 1000, op.total_ns) << row.name;
    EXPECT_EQ(row.self_ps / 1000, op.self_ns) << row.name;
    EXPECT_EQ(row.flops, op.flops) << row.name;
    EXPECT_EQ(row.accessed_bytes, op.bytes_accessed) << row.name;
    EXPECT_EQ(row.kind == "communication", op.kind == digest::WorkKind::kCommunication) << row.name;
    EXPECT_EQ(row.kind == "copy", op.kind == digest::WorkKind::kCopy) << row.name;
    ++compared;
  }
  EXPECT_EQ(compared, tally.kernels.rows.size());
  EXPECT_GT(compared, 0u);
}

TEST(TallyTrace, HasTheDigestsNumbers) {
  ExpectDigestsNumbers(Overlapping());
  ExpectDigestsNumbers(LinearStep());
  ExpectDigestsNumbers(PlaneWithKinds());
}

TEST(TallyTrace, TellsWhatXlaSaysOfItsOperations) {
  const MadeTrace trace(PlaneWithKinds());
  const Tally tally = *TallyTrace(trace.source());
  const TallyRow& first = RowNamed(tally.kernels, "fusion.1");
  EXPECT_EQ(first.category, "loop fusion");
  EXPECT_EQ(first.flops, std::uint64_t{1} << 61);
  EXPECT_EQ(first.accessed_bytes, 10u);
  EXPECT_EQ(RowNamed(tally.kernels, "fusion.2").category, "all-reduce fusion");
}

TEST(TallyTrace, TellsTheInputsOfOperators) {
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "python", 0);
  const auto add = [&](std::string_view name, std::int64_t begin_us, std::string_view shapes) {
    AddHostEvent(host, name, "cpu_op", begin_us, 5);
    if (!shapes.empty()) host.AddEventStat(host.StatId("Input Dims"), xplane::Ref{shapes});
  };
  add("aten::mm", 0, "[[64, 32], [32, 64]]");
  add("aten::mm", 10, "[[64, 32], [32, 64]]");
  add("aten::add", 20, "[[8], []]");
  add("aten::add", 30, "[[16], []]");
  add("aten::zeros", 40, "");
  const MadeTrace trace(host.Encode());
  const Tally tally = *TallyTrace(trace.source());
  const TallyRow& mm = RowNamed(tally.operators, "aten::mm");
  EXPECT_EQ(mm.shapes, "[[64, 32], [32, 64]]");
  EXPECT_FALSE(mm.shapes_differ);
  const TallyRow& added = RowNamed(tally.operators, "aten::add");
  EXPECT_EQ(added.shapes, "[[8], []]");
  EXPECT_TRUE(added.shapes_differ);
  EXPECT_EQ(RowNamed(tally.operators, "aten::zeros").shapes, "");
}

// Operations of a TPU contain others: a loop takes the time of its own.
TEST(TallyTrace, AnOperationsSelfTimeIsWithoutTheOnesInside) {
  xplane::PlaneBuilder tpu("/device:TPU:0");
  tpu.BeginLine(1, "XLA Ops", 0);
  tpu.AddEvent(tpu.EventId("while.1"), 0, 100 * kUs);
  tpu.AddEvent(tpu.EventId("fusion.2"), 10 * kUs, 30 * kUs);
  tpu.AddEvent(tpu.EventId("all-reduce.3"), 50 * kUs, 20 * kUs);
  tpu.BeginLine(2, "XLA Modules", 0);
  tpu.AddEvent(tpu.EventId("jit_step(7)"), 0, 100 * kUs);
  const std::string xspace = tpu.Encode();
  ExpectDigestsNumbers(xspace);
  const MadeTrace trace(xspace);
  const Tally tally = *TallyTrace(trace.source());
  EXPECT_EQ(RowNamed(tally.kernels, "while.1").self_ps, 50 * kUs);
  EXPECT_EQ(RowNamed(tally.kernels, "while.1").kind, "operation");
  EXPECT_EQ(tally.device_ps, 100 * kUs);
  EXPECT_EQ(RowNamed(tally.modules, "jit_step(7)").kind, "program");
  // The loop waits while the collective runs inside.
  EXPECT_EQ(RowNamed(tally.communication, "all-reduce.3").exposed_ps, 20 * kUs);
}

TEST(TallyTrace, CollectivesOfTheHostAreListed) {
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "python", 0);
  AddHostEvent(host, "gloo:all_reduce", "cpu_op", 0, 30);
  AddHostEvent(host, "gloo:all_reduce", "cpu_op", 40, 10);
  const MadeTrace trace(host.Encode());
  const Tally tally = *TallyTrace(trace.source());
  ASSERT_EQ(tally.communication.rows.size(), 1u);
  EXPECT_EQ(tally.communication.rows[0].kind, "host");
  EXPECT_EQ(tally.communication.rows[0].total_ps, 40 * kUs);
  EXPECT_FALSE(tally.communication.rows[0].exposed_ps.has_value());
  EXPECT_FALSE(tally.joins_launches);
  EXPECT_EQ(tally.device_ps, 0);
}

// The plane with the collectives that a program told through its library's profiler plugin: two
// groups, one of which has the devices' times too.
std::string ToldCollectives() {
  xplane::PlaneBuilder plane(xplane::kCollectivesPlane);
  const auto add_call = [&](std::string_view group, std::int64_t ranks, std::int64_t length_us) {
    plane.AddEvent(plane.EventId("nccl:AllReduce"), 0, length_us * kUs);
    plane.AddEventStat(plane.StatId("Collective name"), xplane::Ref{"AllReduce"});
    plane.AddEventStat(plane.StatId("Process Group Name"), xplane::Ref{group});
    plane.AddEventStat(plane.StatId("Process Group Description"), xplane::Ref{"data"});
    plane.AddEventStat(plane.StatId("Group size"), ranks);
    plane.AddEventStat(plane.StatId("In msg nelems"), std::uint64_t{1'000'000});
    plane.AddEventStat(plane.StatId("dtype"), xplane::Ref{"Float"});
  };
  plane.BeginLine(0, "data 0xabc rank 3 of 8", 0);
  add_call("0xabc", 8, 3);
  plane.BeginLine(1, StrCat("data 0xabc rank 3 of 8", xplane::kOnDevice), 0);
  add_call("0xabc", 8, 70);
  plane.BeginLine(2, "data 0xdef rank 0 of 2", 0);
  add_call("0xdef", 2, 5);
  return plane.Encode();
}

TEST(TallyTrace, CollectivesThatProgramsToldAreNoOperators) {
  const MadeTrace trace(ToldCollectives());
  const Tally tally = *TallyTrace(trace.source());
  EXPECT_TRUE(tally.operators.rows.empty());
  ASSERT_EQ(tally.communication.rows.size(), 2u);
  const TallyRow& measured = tally.communication.rows[0];
  EXPECT_EQ(measured.kind, "device");
  EXPECT_EQ(measured.group, "0xabc data");
  EXPECT_EQ(measured.collective, digest::CollectiveKind::kAllReduce);
  EXPECT_EQ(measured.ranks, 8u);
  EXPECT_EQ(measured.count, 1u);
  EXPECT_EQ(measured.total_ps, 70 * kUs);
  EXPECT_EQ(measured.bytes, 4'000'000u);
  EXPECT_DOUBLE_EQ(measured.bytes_per_s, 4e6 / 70e-6);
  EXPECT_FALSE(measured.exposed_ps.has_value());
  const TallyRow& called = tally.communication.rows[1];
  EXPECT_EQ(called.kind, "host");
  EXPECT_EQ(called.group, "0xdef data");
  EXPECT_EQ(called.total_ps, 5 * kUs);
  EXPECT_EQ(called.bytes, 4'000'000u);
  EXPECT_EQ(called.bytes_per_s, 0) << "a call ends once it is handed over";
}

TEST(TallyTrace, CollectivesThatProgramsToldCountForNothingBesideADevicesOwn) {
  const MadeTrace trace(ToldCollectives() + Overlapping());
  const Tally tally = *TallyTrace(trace.source());
  ASSERT_EQ(tally.communication.rows.size(), 1u);
  EXPECT_EQ(tally.communication.rows[0].name, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  EXPECT_TRUE(tally.operators.rows.empty());
}

TEST(TallyTrace, RowsAreBounded) {
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  const std::size_t names = kMaxRows + 10;
  for (std::size_t i = 0; i < names; ++i)
    gpu.AddEvent(gpu.EventId(StrCat("kernel_", i)), static_cast<std::int64_t>(i) * kUs,
                 static_cast<std::int64_t>(i + 1));
  const MadeTrace trace(gpu.Encode());
  const Tally tally = *TallyTrace(trace.source());
  EXPECT_EQ(tally.kernels.rows.size(), kMaxRows);
  EXPECT_EQ(tally.kernels.left_out, 10u);
  EXPECT_EQ(tally.kernels.rows.front().name, StrCat("kernel_", names - 1));
  EXPECT_EQ(tally.device_ps, static_cast<std::int64_t>(names * (names + 1) / 2))
      << "of all, also of those that are left out";
}

TEST(TallyTrace, EndsWhenNobodyWaits) {
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  for (std::int64_t i = 0; i < 70'000; ++i) gpu.AddEvent(gpu.EventId("kernel"), i * kUs, kUs);
  const MadeTrace trace(gpu.Encode());
  Source source = trace.source();
  source.is_gone = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(TallyTrace(source).status()));
}

// An index that was made of another trace does no harm.
TEST(TallyTrace, AnIndexThatDoesNotFitIsRefused) {
  const MadeTrace trace(LinearStep());
  const xplane::Space nothing;
  Source source = trace.source();
  source.space = &nothing;
  EXPECT_TRUE(absl::IsDataLoss(TallyTrace(source).status()));
  source = trace.source();
  source.trace = source.trace.substr(0, 20);
  EXPECT_TRUE(absl::IsDataLoss(TallyTrace(source).status()));
}

TEST(TallyTrace, OfAnEmptyTraceIsEmpty) {
  const MadeTrace trace("");
  const Tally tally = *TallyTrace(trace.source());
  EXPECT_TRUE(tally.kernels.rows.empty() && tally.operators.rows.empty());
  EXPECT_TRUE(tally.modules.rows.empty() && tally.communication.rows.empty());
}

}  // namespace
}  // namespace strobe::tally
