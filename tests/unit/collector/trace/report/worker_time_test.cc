#include "collector/trace/report/worker_time.h"

#include <gmock/gmock.h>

namespace strobe::report {
namespace {

// Three steps of 100 ms each on a GPU: computes for 15, NCCL is exposed for 5 and a copy for 1, and
// of the 79 idle ones 64 are waits for launches. The second step waits for input.
digest::Digest LaunchBound() {
  constexpr std::int64_t kOneMs = 1'000'000;
  digest::Digest digest{.worker = "w"};
  digest.names = {"ProfilerStep", "ncclDevKernel_AllReduce"};
  digest.devices = {{.name = "/device:GPU:0"}};
  digest.ops = {
      {.name = 1, .kind = digest::WorkKind::kCommunication, .count = 3, .self_ns = 15 * kOneMs}};
  digest.knows = {.device = true, .launches = true, .steps = true};
  for (std::int64_t i = 0; i < 3; ++i) {
    digest::Step& step = digest.steps.emplace_back(
        digest::Step{.number = i, .begin_ns = i * 100 * kOneMs, .end_ns = (i + 1) * 100 * kOneMs});
    step.time = {.span_ns = 100 * kOneMs,
                 .compute_ns = 15 * kOneMs,
                 .communication_ns = 9 * kOneMs,
                 .exposed_communication_ns = 5 * kOneMs,
                 .copies_ns = kOneMs,
                 .exposed_copies_ns = kOneMs,
                 .idle_ns = 79 * kOneMs};
    step.host.host_bound_ns = (i == 2 ? 70 : 61) * kOneMs;
    if (i == 1) step.host.input_stall_ns = 6 * kOneMs;
  }
  return digest;
}

LostTime LostOf(const WorkerTime& time, LostPart part) {
  return time.lost[static_cast<std::size_t>(part)];
}

TEST(WorkerTimeOf, IsThatOfTheSteps) {
  digest::Digest digest = LaunchBound();
  // What lies outside of the steps does not count.
  digest.time = {.span_ns = 1'000'000'000, .idle_ns = 1'000'000'000};
  const WorkerTime time = WorkerTimeOf(digest);
  ASSERT_TRUE(time.has_device);
  EXPECT_EQ(time.device, "GPU");
  EXPECT_EQ(time.communication, "NCCL");
  EXPECT_NEAR(time.busy, 0.21, 1e-9);
  EXPECT_NEAR(time.compute, 0.15, 1e-9);
  EXPECT_NEAR(LostOf(time, LostPart::kLaunches).share, 0.64, 1e-9);
  EXPECT_EQ(LostOf(time, LostPart::kLaunches).step, 2);
  EXPECT_NEAR(LostOf(time, LostPart::kCommunication).share, 0.05, 1e-9);
  EXPECT_FALSE(LostOf(time, LostPart::kInput).measured) << "the trace has no known input pipeline";
  EXPECT_NEAR(LostOf(time, LostPart::kOtherIdle).share, 0.13, 1e-9);
  EXPECT_EQ(WorkerTimeText(time),
            "GPU busy 21%; 64% waiting for launches; 5% exposed NCCL; 1% exposed copies");
  digest.knows.input = true;
  EXPECT_EQ(WorkerTimeText(WorkerTimeOf(digest)),
            "GPU busy 21%; 64% waiting for launches; 5% exposed NCCL; 2% waiting for input");
  EXPECT_EQ(LostOf(WorkerTimeOf(digest), LostPart::kInput).step, 1);
}

TEST(WorkerTimeOf, WithoutStepsItIsThatOfTheRecording) {
  digest::Digest digest = LaunchBound();
  digest.steps.clear();
  digest.knows.host_device = true;
  digest.time = {.span_ns = 200, .compute_ns = 150, .idle_ns = 50};
  const WorkerTime time = WorkerTimeOf(digest);
  EXPECT_EQ(WorkerTimeText(time), "CPU busy 75%; 25% other idle");
  EXPECT_FALSE(LostOf(time, LostPart::kOtherIdle).step);
}

TEST(WorkerTimeOf, TellsTheFullestDevicesMemory) {
  digest::Digest digest = LaunchBound();
  EXPECT_FALSE(WorkerTimeOf(digest).memory);
  digest.devices = {{.name = "/device:TPU:0", .peak_memory_bytes = 30, .memory_bytes = 100},
                    {.name = "/device:TPU:1", .peak_memory_bytes = 95, .memory_bytes = 100},
                    {.name = "/device:TPU:2", .peak_memory_bytes = 99}};
  EXPECT_NEAR(*WorkerTimeOf(digest).memory, 0.95, 1e-9);
  EXPECT_EQ(WorkerTimeOf(digest).device, "TPU");
}

TEST(WorkerTimeOf, SaysNothingOfWhatTheTraceDoesNotTell) {
  EXPECT_FALSE(WorkerTimeOf(digest::Digest{}).has_device);
  digest::Digest digest = LaunchBound();
  digest.knows.device = false;
  EXPECT_FALSE(WorkerTimeOf(digest).has_device);
  digest.knows.device = true;
  digest.steps.clear();
  EXPECT_FALSE(WorkerTimeOf(digest).has_device) << "nothing was recorded";
}

}  // namespace
}  // namespace strobe::report
