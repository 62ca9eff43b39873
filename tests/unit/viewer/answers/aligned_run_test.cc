#include "viewer/answers/aligned_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "tests/unit/viewer/made_run.h"
#include "tests/unit/viewer/two_workers.h"
#include "viewer/answers/comparison.h"

namespace strobe::viewer {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kMilli = 1'000'000'000, kTenth = kMilli / 10;

std::shared_ptr<const LoadedRun> Aligned(const LoadedRun& run, const std::string& by) {
  const auto aligned = AlignedRun(run, by);
  EXPECT_TRUE(aligned.ok()) << aligned.status();
  return aligned.ok() ? *aligned : nullptr;
}

nlohmann::json StepNumbered(const LoadedRun& run, std::int64_t number) {
  return nlohmann::json::parse(FindComparedStep(run, number).value_or("null"))["step"];
}

// Worker 0 begins step n at 40 n ms, worker 1 at 70 n ms, each up to 0.2 ms later.
TEST(AlignedRun, AStepBeginsOnAllWorkersAtOnce) {
  const LoadedRun run = MadeRun(TwoWorkers());
  ASSERT_EQ(StepNumbered(run, 3)["beginSpreadPs"], 90 * kMilli + kTenth);
  const auto aligned = Aligned(run, "step:3");
  ASSERT_NE(aligned, nullptr);
  EXPECT_EQ(aligned->workers[0].shift_ps, run.workers[0].shift_ps) << "the first stays";
  EXPECT_EQ(aligned->workers[1].shift_ps, run.workers[1].shift_ps - 90 * kMilli - kTenth);
  EXPECT_EQ(aligned->begin_ps, run.begin_ps - 90 * kMilli);
  EXPECT_EQ(aligned->aligned_by, "the begin of step 3");
  EXPECT_EQ(aligned->version, run.version) << "rows and events keep their numbers";
  const nlohmann::json step = StepNumbered(*aligned, 3);
  EXPECT_EQ(step["beginSpreadPs"], 0);
  EXPECT_EQ(step["beginPs"], 120 * kMilli);
  EXPECT_EQ(StepNumbered(*aligned, 4)["beginSpreadPs"], 30 * kMilli);
  EXPECT_EQ(StepNumbered(run, 3)["beginSpreadPs"], 90 * kMilli + kTenth) << "the run itself stays";
}

TEST(AlignedRun, IsMadeOnceAndOfWhatThereIs) {
  const LoadedRun run = MadeRun(TwoWorkers());
  EXPECT_EQ(Aligned(run, "step"), Aligned(run, "step"));
  EXPECT_EQ(Aligned(run, "step")->aligned_by, "the begin of step 0");
  EXPECT_TRUE(absl::IsNotFound(AlignedRun(run, "step:8").status()));
  EXPECT_TRUE(absl::IsNotFound(AlignedRun(run, "collective").status()));
  for (const char* by : {"step:", "step:x", "step:3 ", "clock", "step:99999999999999999999"})
    EXPECT_TRUE(absl::IsInvalidArgument(AlignedRun(run, by).status())) << by;
}

// A worker that takes part in an all-reduce, whose clock is `late_ms` ahead of others.
std::string ReduceTrace(std::int64_t late_ms, std::int64_t waits_ms) {
  constexpr std::string_view kReduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)";
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  gpu.AddEvent(gpu.EventId("gemm"), late_ms * kMilli, kMilli);
  gpu.AddEvent(gpu.EventId(std::string(kReduce)), (late_ms + 10 - waits_ms) * kMilli,
               (waits_ms + 1) * kMilli);
  gpu.AddEvent(gpu.EventId(std::string(kReduce)), (late_ms + 30) * kMilli, kMilli);
  return gpu.Encode();
}

// All members end the all-reduce together, however long each has waited in it.
TEST(AlignedRun, TheFirstCollectiveEndsOnAllWorkersAtOnce) {
  xplane::PlaneBuilder idle("/device:GPU:0");
  idle.BeginLine(7, "Stream #7(Compute)", 0);
  idle.AddEvent(idle.EventId("gemm"), 0, kMilli);
  const LoadedRun run = MadeRun({ReduceTrace(0, 1), ReduceTrace(86'400'000, 8), idle.Encode()});
  const auto aligned = Aligned(run, "collective");
  ASSERT_NE(aligned, nullptr);
  EXPECT_EQ(aligned->workers[1].shift_ps - run.workers[1].shift_ps, -86'400'000 * kMilli);
  EXPECT_EQ(aligned->end_ps - aligned->begin_ps, 31 * kMilli);
  EXPECT_EQ(aligned->workers[2].shift_ps, run.workers[2].shift_ps) << "begins as the others do";
  ASSERT_FALSE(aligned->warnings.empty());
  EXPECT_THAT(aligned->warnings.back(), HasSubstr("w2: its trace lacks the end of the first nccl"));
  EXPECT_TRUE(aligned->workers[1].clock_problems.empty()) << "its clock does not matter";
}

// What a library tells of its own calls counts where no device's profiler recorded: the devices'
// times of a group rather than the calls, whose ends differ.
TEST(AlignedRun, ACollectiveThatItsLibraryToldCounts) {
  const auto trace = [](std::int64_t late_ms, std::int64_t waits_ms) {
    xplane::PlaneBuilder host(xplane::kHostPlane);
    host.BeginLine(1, "main", 0);
    host.AddEvent(host.EventId("gloo:all_reduce"), 0, kMilli);
    xplane::PlaneBuilder told(xplane::kCollectivesPlane);
    const std::string line = "0xabc rank 0 of 2";
    told.BeginLine(0, line, 0);
    told.AddEvent(told.EventId("nccl:Send"), late_ms * kMilli, kMilli);
    told.AddEvent(told.EventId("nccl:AllReduce"), (late_ms + 10 - waits_ms) * kMilli, kTenth);
    told.BeginLine(1, line + std::string(xplane::kOnDevice), 0);
    told.AddEvent(told.EventId("nccl:AllReduce"), (late_ms + 11 - waits_ms) * kMilli,
                  waits_ms * kMilli);
    return host.Encode() + told.Encode();
  };
  const LoadedRun run = MadeRun({trace(0, 1), trace(50, 8)});
  const auto aligned = Aligned(run, "collective");
  ASSERT_NE(aligned, nullptr);
  EXPECT_EQ(aligned->aligned_by, "the end of the first nccl:AllReduce");
  EXPECT_EQ(aligned->workers[1].shift_ps - run.workers[1].shift_ps, -50 * kMilli);
}

// Its operations are named after HLO instructions too, and the line of its programs is no work.
TEST(AlignedRun, ACollectiveOfASparseCoreCounts) {
  const auto trace = [](std::int64_t end_ms) {
    xplane::PlaneBuilder core("/device:TPU:0 SparseCore 0");
    core.BeginLine(1, "Sparse Core Modules", 0);
    core.AddEvent(core.EventId("all-reduce.1"), 0, 100 * kMilli);
    core.BeginLine(2, "Sparse Core Ops", 0);
    core.AddEvent(core.EventId("all-reduce.1"), 5 * kMilli, (end_ms - 5) * kMilli);
    return core.Encode();
  };
  const LoadedRun run = MadeRun({trace(10), trace(30)});
  const auto aligned = Aligned(run, "collective");
  ASSERT_NE(aligned, nullptr);
  EXPECT_EQ(aligned->workers[1].shift_ps - run.workers[1].shift_ps, -20 * kMilli);
}

}  // namespace
}  // namespace strobe::viewer
