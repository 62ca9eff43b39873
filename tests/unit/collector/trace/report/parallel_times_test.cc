#include "collector/trace/report/parallel_times.h"

#include <gmock/gmock.h>

#include <string>

#include "collector/trace/report/digest_operations.h"
#include "collector/trace/report/headline.h"
#include "collector/trace/report/stragglers.h"

namespace strobe::report {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kPartMs = 1'000'000;

// A job of 2 replicas by `stages` stages; rank = 2 * stage + replica. A step takes 100 ms: a worker
// computes for what `own_ms` says of its rank, and is then in a transfer of its pipeline's group
// until 90 and in an all-reduce with its like for 10.
std::vector<digest::Digest> PipelineJob(const std::vector<std::int64_t>& own_ms, bool told = true) {
  const auto workers = static_cast<std::uint32_t>(own_ms.size());
  std::vector<digest::Digest> digests;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    digest::Digest& digest = digests.emplace_back(
        digest::Digest{.worker = "w" + std::to_string(rank), .rank = rank, .world_size = workers});
    digest.zero_ns = 1'790'000'000'000 * kPartMs;
    digest.clock_error_ns = 1000;
    digest.knows = {.device = true, .steps = true};
    digest.names = {"train", "send", "all-reduce"};
    digest::Communicator pipeline{.name = "2 mesh_pp", .size = workers / 2};
    for (std::uint32_t other = rank % 2; other < workers; other += 2)
      pipeline.ranks.push_back(other);
    const std::uint32_t first = rank - rank % 2;
    const digest::Communicator data{.name = "1 mesh_dp", .size = 2, .ranks = {first, first + 1}};
    digest.communicators = {pipeline, data};
    if (told) digest.groups = digest.communicators;
    if (!told) digest.communicators[0].name = "2";
    for (std::int64_t i = 0; i < 8; ++i) {
      const std::int64_t begin = i * 100 * kPartMs;
      const std::int64_t own = own_ms[rank] * kPartMs;
      digest.steps.push_back({.number = i,
                              .begin_ns = begin,
                              .end_ns = begin + 100 * kPartMs,
                              .followed = i < 7,
                              .time = {.span_ns = 100 * kPartMs,
                                       .compute_ns = own,
                                       .communication_ns = 100 * kPartMs - own,
                                       .exposed_communication_ns = 100 * kPartMs - own}});
      digest.collectives.push_back({.communicator = 0,
                                    .name = 1,
                                    .ordinal = static_cast<std::uint32_t>(i),
                                    .begin_ns = begin + own,
                                    .end_ns = begin + 90 * kPartMs,
                                    .kind = digest::CollectiveKind::kSend});
      digest.collectives.push_back({.communicator = 1,
                                    .name = 2,
                                    .ordinal = static_cast<std::uint32_t>(i),
                                    .begin_ns = begin + 90 * kPartMs,
                                    .end_ns = begin + 100 * kPartMs,
                                    .kind = digest::CollectiveKind::kAllReduce});
    }
  }
  return digests;
}

Job MergedJob(const std::vector<digest::Digest>& digests) {
  DigestMerger merger;
  for (const digest::Digest& digest : digests) merger.Add(digest);
  return merger.Finish();
}

TEST(StageTimesOf, StagesAreComparedWithTheirLike) {
  // The last stage has more to do; nobody in it is late.
  const Job job = MergedJob(PipelineJob({40, 40, 40, 40, 70, 70}));
  const StragglerReport report = FindStragglers(job);
  ASSERT_EQ(report.stages.size(), 3u);
  EXPECT_EQ(report.stages[2].workers, 2u);
  EXPECT_NEAR(report.stages[2].own_ns, 70.0 * kPartMs, 1);
  EXPECT_TRUE(report.stragglers.empty() && report.not_decided.empty());
  EXPECT_THAT(Headline(job, report), testing::StartsWith("no straggler: "));
  EXPECT_THAT(
      Headline(job, report),
      HasSubstr("; pipeline stage 2 works 30ms a step longer than the median of the others"));
  // Without groups the last stage's workers seem to be late, which is what stages are for.
  for (const digest::Digest& digest : PipelineJob({40, 40, 40, 40, 70, 70}, /*told=*/false))
    EXPECT_FALSE(StageOf(digest));
}

TEST(StageTimesOf, ALateWorkerOfAStageIsFound) {
  const Job job = MergedJob(PipelineJob({40, 40, 40, 55, 70, 70}));
  const StragglerReport report = FindStragglers(job);
  std::vector<std::uint32_t> late;
  for (const auto* list : {&report.stragglers, &report.not_decided})
    for (const Straggler& straggler : *list) late.push_back(straggler.late.who);
  EXPECT_THAT(late, testing::ElementsAre(3u));
}

TEST(StageTimesOf, WorkersThatAreAloneInTheirStagesHaveNoLike) {
  std::vector<digest::Digest> digests;
  for (digest::Digest& digest : PipelineJob({40, 40, 40, 40, 70, 70}))
    if (*digest.rank % 2 == 0) digests.push_back(std::move(digest));
  const Job job = MergedJob(digests);
  EXPECT_EQ(Headline(job, FindStragglers(job)),
            "each pipeline stage has one worker, so that none can be compared; pipeline stage 2 "
            "works 30ms a step longer than the median of the others");
}

TEST(GroupTimesOf, TellsInWhichGroupsTimeIsSpent) {
  const Job job = MergedJob(PipelineJob({40, 40, 40, 40, 70, 70}));
  const auto groups = GroupTimesOf(job, ComputeArrivals(job));
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].kind, GroupKind::kPipeline);
  EXPECT_TRUE(groups[0].named);
  EXPECT_EQ(groups[0].communicators, 2u);
  EXPECT_EQ(groups[0].calls, 6u * 8);
  EXPECT_NEAR(groups[0].in_calls_ns, (4 * 50 + 2 * 20) / 6.0 * kPartMs, 1);
  EXPECT_FALSE(groups[0].waited_ns) << "transfers do not tell who waits";
  EXPECT_EQ(groups[1].kind, GroupKind::kData);
  EXPECT_EQ(groups[1].communicators, 3u);
  EXPECT_NEAR(groups[1].in_calls_ns, 10.0 * kPartMs, 1);
  EXPECT_EQ(groups[1].waited_ns, 0);
}

TEST(GroupTimesOf, WithoutANameTheCallsTellTheKind) {
  const Job job = MergedJob(PipelineJob({40, 40, 40, 40}, /*told=*/false));
  const auto groups = GroupTimesOf(job, ComputeArrivals(job));
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].kind, GroupKind::kPipeline);
  EXPECT_FALSE(groups[0].named);
}

}  // namespace
}  // namespace strobe::report
