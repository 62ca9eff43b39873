#include "collector/trace/report/engine_times.h"

#include <gmock/gmock.h>

#include <limits>

namespace strobe::report {
namespace {

constexpr std::int64_t kEngineMs = 1'000'000;

// An engine whose iterations follow one another.
class EngineDigest {
 public:
  void Run(std::int64_t ms, const digest::Batch& batch) {
    const std::int64_t end_ns = now_ns_ + ms * kEngineMs;
    digest_.steps.push_back({.number = static_cast<std::int64_t>(digest_.steps.size()),
                             .begin_ns = now_ns_,
                             .end_ns = end_ns,
                             .annotation_end_ns = end_ns,
                             .batch = batch});
    now_ns_ = end_ns;
  }
  void Pause(std::int64_t ms) { now_ns_ += ms * kEngineMs; }
  const digest::Digest& digest() const { return digest_; }
  EngineReport Report() const {
    EngineTimes times;
    times.Add(digest_);
    return times.Finish();
  }

 private:
  digest::Digest digest_{.names = {"engine"}};
  std::int64_t now_ns_ = kEngineMs;
};

digest::Batch Decodes(std::int64_t requests, std::int64_t running_before = -1) {
  return {.decode_requests = requests, .decode_tokens = requests, .running_before = running_before};
}
digest::Batch Prefills(std::int64_t tokens, std::int64_t running_before = -1) {
  return {.prefill_requests = 1, .prefill_tokens = tokens, .running_before = running_before};
}

TEST(EngineTimes, GroupsIterationsByPhaseAndSize) {
  EngineDigest engine;
  for (int i = 0; i < 10; ++i) engine.Run(10, Decodes(1));
  for (int i = 0; i < 4; ++i) engine.Run(12, Decodes(3));
  engine.Run(40, Decodes(4));
  engine.Run(100, Prefills(468));
  engine.Run(
      110, {.prefill_requests = 1, .prefill_tokens = 30, .decode_requests = 9, .decode_tokens = 9});
  const EngineReport report = engine.Report();
  ASSERT_EQ(report.sizes.size(), 4u);
  EXPECT_EQ(SizeText(report.sizes[0]), "1 request");
  EXPECT_EQ(report.sizes[0].iterations, 10u);
  EXPECT_EQ(SizeText(report.sizes[1]), "3 to 4 requests");
  EXPECT_EQ(report.sizes[1].iterations, 5u);
  EXPECT_EQ(report.sizes[1].p50_ns, 12 * kEngineMs);
  EXPECT_EQ(report.sizes[1].max_ns, 40 * kEngineMs);
  EXPECT_EQ(report.sizes[1].tokens, 16);
  EXPECT_EQ(SizeText(report.sizes[2]), "468 tokens");
  EXPECT_EQ(report.sizes[3].phase, BatchPhase::kMixed);
  EXPECT_EQ(report.sizes[3].tokens, 39);
  ASSERT_EQ(report.phases.size(), 3u);
  EXPECT_EQ(report.phases[0].iterations, 15u);
  EXPECT_EQ(SizeText(report.phases[0]), "1 to 4 requests");
  EXPECT_EQ(report.idle, 0);
  EXPECT_NEAR(report.sizes[0].share, 100.0 / 398, 1e-9);
}

TEST(EngineTimes, SaysWhyTheEngineDidNotIterate) {
  EngineDigest engine;
  engine.Run(10, Decodes(2));
  engine.Pause(3);
  engine.Run(10, Decodes(2, 2));  // Requests ran when it was planned.
  engine.Pause(50);
  engine.Run(10, Prefills(20, 0));  // The first request after a rest.
  engine.Pause(5);
  engine.Run(10, Decodes(1));
  engine.Run(10, Decodes(1, 1));  // It follows at once.
  const EngineReport report = engine.Report();
  ASSERT_EQ(report.gaps.size(), 3u);
  EXPECT_EQ(report.gaps[0].reason, GapReason::kNoRequests);
  EXPECT_EQ(report.gaps[0].total_ns, 50 * kEngineMs);
  EXPECT_EQ(report.gaps[1].reason, GapReason::kScheduling);
  EXPECT_EQ(report.gaps[1].total_ns, 3 * kEngineMs);
  EXPECT_EQ(report.gaps[2].reason, GapReason::kNotTold);
  EXPECT_EQ(report.gaps[2].gaps, 1u);
  EXPECT_NEAR(report.idle, 58.0 / 108, 1e-9);
  EXPECT_NEAR(report.gaps[0].share, 50.0 / 108, 1e-9);
}

TEST(EngineTimes, TheHeadlineNamesPhasesAndTheMainReason) {
  EngineDigest engine;
  for (int i = 0; i < 9; ++i) engine.Run(10, Decodes(i + 1, 1));
  engine.Pause(30);
  engine.Run(80, Prefills(468, 0));
  EXPECT_EQ(EngineHeadline(engine.Report()),
            "decode 10ms at 1 to 9 requests (9), prefill 80ms at 468 tokens (1); 15% of the time "
            "between iterations, most of it: no requests");
  EXPECT_EQ(WithEngine(engine.Report(), 1, "no straggler"), EngineHeadline(engine.Report()));
  EXPECT_EQ(WithEngine(engine.Report(), 2, "no straggler"),
            EngineHeadline(engine.Report()) + "; no straggler");
  EXPECT_EQ(WithEngine({}, 1, "no straggler"), "no straggler");
}

// The scheduler is recorded with one rank of its engine.
TEST(EngineTimes, ARankWithoutTheSchedulerDoesNotHideWhy) {
  EngineTimes times;
  for (const std::int64_t running : {2, -1}) {
    EngineDigest rank;
    rank.Run(10, Decodes(2));
    rank.Pause(30);
    rank.Run(10, Decodes(2, running));
    times.Add(rank.digest());
  }
  const EngineReport report = times.Finish();
  ASSERT_EQ(report.gaps.size(), 1u);
  EXPECT_EQ(report.gaps[0].reason, GapReason::kScheduling);
  EXPECT_NEAR(report.idle, 0.6, 1e-9);
  EXPECT_EQ(report.sizes[0].iterations, 4u);
  EXPECT_NEAR(report.sizes[0].share, 0.4, 1e-9);
}

TEST(EngineTimes, StepsOfTrainingAreNone) {
  digest::Digest digest{.names = {"train"}};
  digest.steps.push_back(
      {.number = 1, .begin_ns = 0, .end_ns = kEngineMs, .annotation_end_ns = kEngineMs});
  EngineTimes times;
  times.Add(digest);
  EXPECT_TRUE(times.Finish().empty());
}

TEST(EngineTimes, WhateverADigestTellsHasASum) {
  digest::Digest digest{.names = {"engine"}};
  constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min(),
                         kLast = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 3; ++i) {
    digest.steps.push_back({.begin_ns = kFirst,
                            .end_ns = kLast,
                            .annotation_end_ns = i == 0 ? kFirst : kLast,
                            .batch = Decodes(kLast)});
    digest.steps.push_back({.begin_ns = kLast,
                            .end_ns = kLast,
                            .annotation_end_ns = kFirst,
                            .batch = Prefills(kLast, kLast)});
  }
  EngineTimes times;
  times.Add(digest);
  const EngineReport report = times.Finish();
  EXPECT_FALSE(EngineHeadline(report).empty());
  EXPECT_EQ(EngineToJson(report)["sizes"].size(), 2u);
}

TEST(EngineTimes, AnEngineOfManyIterationsKeepsTheirNumber) {
  EngineDigest engine;
  for (int i = 0; i < 30'000; ++i) engine.Run(1, Decodes(1));
  EXPECT_EQ(engine.Report().sizes[0].iterations, 30'000u);
  EXPECT_EQ(engine.Report().sizes[0].p99_ns, kEngineMs);
}

}  // namespace
}  // namespace strobe::report
