#include "cli/report/engine_table.h"

#include <gmock/gmock.h>

namespace strobe::cli {
namespace {

using testing::ElementsAre;

TEST(EngineSections, HasARowForEachBatchSizeAndReason) {
  digest::Digest digest{.names = {"engine"}};
  const auto run = [&](std::int64_t begin_ms, std::int64_t end_ms,
                       const digest::DigestBatch& batch) {
    digest.steps.push_back({.begin_ns = begin_ms * 1'000'000,
                            .end_ns = end_ms * 1'000'000,
                            .annotation_end_ns = end_ms * 1'000'000,
                            .batch = batch});
  };
  run(0, 10, {.decode_requests = 2, .decode_tokens = 2});
  run(20, 110, {.prefill_requests = 1, .prefill_tokens = 468, .running_before = 0});
  const std::vector<DocumentSection> sections = EngineSections(EngineOf(std::vector{digest}));
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_THAT(sections[0].rows[1],
              ElementsAre("decode", "2 requests", "1", "10ms", "10ms", "10ms", "2", "9.1%"));
  EXPECT_THAT(sections[0].rows[2],
              ElementsAre("prefill", "468 tokens", "1", "90ms", "90ms", "90ms", "468", "82%"));
  EXPECT_THAT(sections[1].rows[1], ElementsAre("no requests", "1", "10ms", "10ms", "9.1%"));
}

TEST(EngineSections, ATrainingJobHasNone) {
  const std::vector<digest::Digest> digests(1);
  EXPECT_THAT(EngineSections(EngineOf(digests)), testing::IsEmpty());
}

}  // namespace
}  // namespace strobe::cli
