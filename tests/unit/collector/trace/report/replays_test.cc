#include "collector/trace/report/replays.h"

#include <gmock/gmock.h>

#include <limits>

#include "absl/status/status.h"
#include "tests/fakes/pipeline_operations.h"

namespace strobe::report {
namespace {

// A microbatch goes through two stages and back. The passes of the first stage take 10 and 20,
// those of the second 30 and 40, each transfer 1, and both clip for 5.
std::vector<PipelineOperation> OneMicrobatch() {
  using enum PipelineKind;
  return {{.stage = 0, .kind = kForward, .begin_ns = 0, .duration_ns = 10},
          {.stage = 0, .kind = kForwardSend, .begin_ns = 10, .duration_ns = 1},
          {.stage = 1, .kind = kForwardReceive, .begin_ns = 0, .duration_ns = 11},
          {.stage = 1, .kind = kForward, .begin_ns = 11, .duration_ns = 30},
          {.stage = 1, .kind = kBackward, .begin_ns = 41, .duration_ns = 40},
          {.stage = 1, .kind = kBackwardSend, .begin_ns = 81, .duration_ns = 1},
          {.stage = 0, .kind = kBackwardReceive, .begin_ns = 11, .duration_ns = 71},
          {.stage = 0, .kind = kBackward, .begin_ns = 82, .duration_ns = 20},
          {.stage = 0, .kind = kClipGrads, .begin_ns = 102, .duration_ns = 5},
          {.stage = 1, .kind = kClipGrads, .begin_ns = 82, .duration_ns = 25}};
}

TEST(MakePipelineJob, OperationsWaitAsTheScheduleSays) {
  const auto job = MakePipelineJob(OneMicrobatch());
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(job->steps.size(), 1u);
  EXPECT_EQ(job->workers.size(), 2u);
  EXPECT_EQ(job->mismatch_count, 0u);
  Replays replays(*job);
  ASSERT_EQ(replays.steps().size(), 1u);
  EXPECT_EQ(replays.steps()[0].time_ns, 107) << "as it was recorded";
  // With passes of 1 only the transfers and clipping take longer.
  EXPECT_EQ(replays.Time(replays.steps()[0],
                         [&](std::size_t i) {
                           const Operation& operation = job->steps[0].operations[i];
                           return job->types[operation.type].communication
                                      ? replays.steps()[0].durations_ns[i]
                                      : 1;
                         }),
            1 + 1 + 1 + 1 + 1 + 1 + 5);
}

TEST(MakePipelineJob, TellsATransferWithoutAReceive) {
  std::vector<PipelineOperation> operations = OneMicrobatch();
  operations.push_back(operations[2]);
  operations.back().ordinal = 1;
  EXPECT_EQ(MakePipelineJob(operations)->mismatch_count, 1u);
}

TEST(MakePipelineJob, RefusesImpossibleTimes) {
  EXPECT_EQ(MakePipelineJob({}).status().code(), absl::StatusCode::kInvalidArgument);
  for (const auto& [begin, duration] :
       {std::pair<std::int64_t, std::int64_t>(0, -1),
        std::pair<std::int64_t, std::int64_t>(std::numeric_limits<std::int64_t>::min(), 1)}) {
    std::vector<PipelineOperation> operations = OneMicrobatch();
    operations[0].begin_ns = begin;
    operations[0].duration_ns = duration;
    EXPECT_EQ(MakePipelineJob(operations).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace strobe::report
