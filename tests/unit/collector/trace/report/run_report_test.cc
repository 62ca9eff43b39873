#include "collector/trace/report/run_report.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/strings.h"
#include "tests/fakes/synthetic_job.h"

namespace strobe::report {
namespace {

using testing::EndsWith;
using testing::StartsWith;

constexpr std::size_t kEnough = 2 << 20;

SimulatedJob SlowedJob(std::size_t workers) {
  return Simulate(
      {.workers = workers, .slowed = {{.worker = 3, .cause = Cause::kInput, .ms = 20}}});
}

MadeReport ReportOf(const std::vector<digest::Digest>& digests, std::size_t max_bytes = kEnough) {
  RunReport report;
  for (const digest::Digest& digest : digests) report.Add(digest);
  return report.Finish("uid-1", "run", max_bytes);
}

TEST(RunReport, NamesTheStragglerInHeadlineFiguresAndJson) {
  const SimulatedJob job = SlowedJob(8);
  const MadeReport made = ReportOf(job.digests);
  EXPECT_THAT(made.headline, StartsWith("rank 3 holds up 7 others by "));
  EXPECT_THAT(made.headline, EndsWith(": input"));
  EXPECT_NEAR(*made.figures.step_seconds * 1e3, job.step_ms, job.step_ms * 0.02);
  EXPECT_NEAR(*made.figures.straggler_seconds * 1e3, job.step_ms - job.step_ms_without_slowed, 2);
  const auto json = nlohmann::json::parse(made.json);
  EXPECT_EQ(json["captureId"], "uid-1");
  EXPECT_EQ(json["headline"], made.headline);
  EXPECT_EQ(json["stragglers"]["stragglers"][0]["causes"][0]["cause"], "input");
  EXPECT_EQ(json["workers"].size(), 8u);
  EXPECT_EQ(json["workers"][3]["rank"], 3);
  const auto& steps = json["steps"];
  const auto named = std::count_if(steps.begin(), steps.end(), [](const nlohmann::json& step) {
    return step["mostOwnTime"] == "worker-3";
  });
  EXPECT_GE(named, 18) << steps.dump() << ": of 20 steps, of which two may be long by chance";
}

TEST(RunReport, TheIterationsOfAServerComeFirst) {
  digest::Digest digest{.worker = "vllm-0", .names = {"engine"}};
  for (int i = 0; i < 4; ++i)
    digest.steps.push_back({.number = i,
                            .begin_ns = 12'000'000 * i,
                            .end_ns = 12'000'000 * i + 9'000'000,
                            .annotation_end_ns = 12'000'000 * i + 9'000'000,
                            .batch = {.decode_requests = 2, .decode_tokens = 2}});
  const MadeReport made = ReportOf({digest});
  EXPECT_EQ(made.headline, "decode 9ms at 2 requests (4); 20% of the time between iterations");
  EXPECT_EQ(nlohmann::json::parse(made.json)["engine"]["phases"][0]["iterations"], 4);
}

TEST(RunReport, WorkersAreInTheOrderOfTheirRanksHoweverTheyArrive) {
  SimulatedJob job = SlowedJob(8);
  std::reverse(job.digests.begin(), job.digests.end());
  const auto json = nlohmann::json::parse(ReportOf(job.digests).json);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(json["workers"][i]["rank"], i);
}

TEST(RunReport, WithoutAStragglerTheLossIsZeroAndNotUnknown) {
  const MadeReport made = ReportOf(Simulate({.workers = 8}).digests);
  EXPECT_THAT(made.headline, StartsWith("no straggler"));
  EXPECT_EQ(made.figures.straggler_seconds, 0);
}

TEST(RunReport, WithoutClocksDurationsTellTheLoss) {
  SimulatedJob job = SlowedJob(8);
  for (digest::Digest& digest : job.digests) digest.clock_error_ns.reset();
  const MadeReport made = ReportOf(job.digests);
  EXPECT_THAT(made.headline, StartsWith("rank 3 holds up 7 others by "));
  EXPECT_NEAR(*made.figures.straggler_seconds * 1e3, job.step_ms - job.step_ms_without_slowed, 2);
  const auto json = nlohmann::json::parse(made.json);
  EXPECT_EQ(json["stragglers"]["stragglers"][0]["evidence"], "durations");
}

TEST(RunReport, WithoutClocksAndCallsTheLossIsUnknown) {
  SimulatedJob job = SlowedJob(8);
  for (digest::Digest& digest : job.digests) digest.collectives.clear();
  const MadeReport made = ReportOf(job.digests);
  EXPECT_THAT(made.headline, StartsWith("not decidable who waits: rank 3 takes "));
  EXPECT_FALSE(made.figures.straggler_seconds.has_value());
}

TEST(RunReport, WhatIsOnlyLikelyIsNoFigure) {
  SimulatedJob job = SlowedJob(8);
  for (digest::Digest& digest : job.digests)
    digest.steps.erase(digest.steps.begin(), digest.steps.end() - 2);
  const MadeReport made = ReportOf(job.digests);
  EXPECT_THAT(made.headline, StartsWith("likely rank 3 holds up 7 others by "));
  EXPECT_THAT(made.headline, EndsWith(", input: weak evidence, 2 steps"));
  EXPECT_TRUE(made.figures.step_seconds.has_value());
  EXPECT_FALSE(made.figures.straggler_seconds.has_value());
  EXPECT_EQ(nlohmann::json::parse(made.json)["stragglers"]["likely"], true);
}

TEST(RunReport, TellsWorkersThatAreMissingAndWhy) {
  const SimulatedJob job = SlowedJob(8);
  RunReport report;
  for (std::size_t i = 0; i + 1 < job.digests.size(); ++i) report.Add(job.digests[i]);
  report.AddMissing("worker-7", "its sidecar is too old to make reports");
  const MadeReport made = report.Finish("uid-1", "run", kEnough);
  EXPECT_THAT(made.headline, StartsWith("rank 3 holds up 6 others"));
  EXPECT_THAT(made.headline, EndsWith("; 1 of 8 workers are missing"));
  EXPECT_EQ(nlohmann::json::parse(made.json)["missing"][0]["worker"], "worker-7");
}

TEST(RunReport, WithoutDigestsItSaysWhy) {
  RunReport none;
  EXPECT_EQ(none.Finish("uid-1", "run", kEnough).headline, "not decidable: no worker has a trace");
  RunReport old;
  for (int i = 0; i < 100; ++i)
    old.AddMissing(StrCat("w", i), "its sidecar is too old to make reports");
  const MadeReport made = old.Finish("uid-1", "run", kEnough);
  EXPECT_EQ(made.headline,
            "not decidable: no trace is summed up: its sidecar is too old to make reports");
  EXPECT_FALSE(made.figures.step_seconds || made.figures.straggler_seconds ||
               made.figures.exposed_communication);
  const auto json = nlohmann::json::parse(made.json);
  EXPECT_EQ(json["missingWorkers"], 100);
  EXPECT_EQ(json["missing"].size(), 20u);
}

TEST(RunReport, OneWorkerAndNoStepsSaySo) {
  EXPECT_THAT(ReportOf({SlowedJob(8).digests[0]}).headline, StartsWith("GPU busy "));
  digest::Digest stepless{.worker = "w"};
  const MadeReport made = ReportOf({stepless, stepless});
  EXPECT_THAT(made.headline, StartsWith("not decidable: no trace has steps"));
  EXPECT_FALSE(made.figures.step_seconds.has_value());
}

TEST(RunReport, OpsOfAllWorkersAreAdded) {
  digest::Digest digest{.worker = "w"};
  digest.names = {"small", "large"};
  digest.ops = {{.name = 0, .count = 1, .self_ns = 5}, {.name = 1, .count = 2, .self_ns = 50}};
  const auto json = nlohmann::json::parse(ReportOf({digest, digest}).json);
  EXPECT_EQ(json["ops"][0]["name"], "large");
  EXPECT_EQ(json["ops"][0]["count"], 4);
  EXPECT_EQ(json["ops"][0]["selfNs"], 100);
  EXPECT_EQ(json["ops"][0]["workers"], 2);
}

TEST(RunReport, AReportThatIsTooLongLeavesItsListsOut) {
  const MadeReport full = ReportOf(SlowedJob(8).digests);
  const MadeReport cut = ReportOf(SlowedJob(8).digests, full.json.size() - 1);
  EXPECT_EQ(cut.headline, full.headline);
  EXPECT_LT(cut.json.size(), full.json.size() / 2);
  const auto json = nlohmann::json::parse(cut.json);
  EXPECT_EQ(json["workersLeftOut"], 8);
  EXPECT_TRUE(json["workers"].empty());
}

}  // namespace
}  // namespace strobe::report
