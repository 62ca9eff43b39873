#include "collector/trace/report/role_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/fakes/synthetic_job.h"

namespace strobe::report {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kRoom = 2 << 20;

std::vector<digest::Digest> WithRole(SimulatedJob job, const std::string& role,
                                     const std::string& group = "") {
  for (digest::Digest& digest : job.digests) {
    digest.role = role;
    digest.group = group;
    digest.worker = role + "." + group + digest.worker;
  }
  return std::move(job.digests);
}

// Decode takes a tenth of the time of prefill, and worker 3 of decode is slow by its own measure.
std::vector<digest::Digest> Prefill() { return WithRole(Simulate({.workers = 8}), "prefill"); }
std::vector<digest::Digest> Decode() {
  return WithRole(
      Simulate({.workers = 8, .slowed = {{.worker = 3, .cause = Cause::kInput, .ms = 20}}}),
      "decode");
}

MadeReport RolesReport(const std::vector<std::vector<digest::Digest>>& parts) {
  RoleReport report;
  for (const auto& part : parts) {
    for (const digest::Digest& digest : part) report.Add(digest);
  }
  return report.Finish("uid-1", "run", kRoom);
}

TEST(RoleReport, WorkersThatAreAlikeHaveTheReportOfARun) {
  RunReport expected;
  for (const digest::Digest& digest : Decode()) expected.Add(digest);
  const MadeReport run = expected.Finish("uid-1", "run", kRoom);
  const MadeReport made = RolesReport({Decode()});
  EXPECT_EQ(made.headline, run.headline);
  EXPECT_EQ(made.json, run.json);
  EXPECT_EQ(made.figures.step_seconds, run.figures.step_seconds);
}

TEST(RoleReport, StragglersAreFoundOnlyAmongWorkersOfTheSameRole) {
  const MadeReport made = RolesReport({Prefill(), Decode()});
  EXPECT_THAT(made.headline, StartsWith("decode: rank 3 holds up 7 others by "));
  EXPECT_THAT(made.headline, HasSubstr("; prefill: no straggler"));
  EXPECT_FALSE(made.figures.step_seconds) << "there is no step of all of them";
  const auto json = nlohmann::json::parse(made.json);
  ASSERT_EQ(json["roles"].size(), 2u);
  EXPECT_EQ(json["roles"][0]["role"], "decode");
  EXPECT_EQ(json["roles"][0]["workers"].size(), 8u);
  EXPECT_EQ(json["roles"][0]["stragglers"]["stragglers"].size(), 1u);
  EXPECT_EQ(json["roles"][1]["role"], "prefill");
  EXPECT_EQ(json["roles"][1]["workers"].size(), 8u);
  EXPECT_EQ(json["roles"][1]["stragglers"]["stragglers"].size(), 0u);
  EXPECT_EQ(json["headline"], made.headline);
  EXPECT_TRUE(json["workers"].empty());
}

// Both engines have ranks 0 to 3, and do not wait for each other.
TEST(RoleReport, ReplicasAreApart) {
  const auto replica = [](const std::string& pod) {
    return WithRole(Simulate({.workers = 4}), "decode", pod);
  };
  const auto json = nlohmann::json::parse(RolesReport({replica("b"), replica("a")}).json);
  ASSERT_EQ(json["roles"].size(), 2u);
  EXPECT_EQ(json["roles"][0]["group"], "a");
  EXPECT_EQ(json["roles"][0]["stragglers"]["workers"], 4);
  EXPECT_THAT(json["headline"].get<std::string>(), StartsWith("decode (a): "));
}

TEST(RoleReport, AMissingWorkerIsMissingFromItsRole) {
  RoleReport report;
  for (const digest::Digest& digest : Prefill()) report.Add(digest);
  report.AddMissing("decode.d.0", "it has no trace: Busy", {"decode", ""});
  report.AddMissing("stray", "nobody knows what it is");
  const MadeReport made = report.Finish("uid-1", "run", kRoom);
  const auto json = nlohmann::json::parse(made.json);
  ASSERT_EQ(json["roles"].size(), 2u);
  EXPECT_EQ(json["roles"][0]["missing"][0]["worker"], "decode.d.0");
  EXPECT_EQ(json["missing"][0]["worker"], "stray");
  EXPECT_THAT(made.headline, StartsWith("decode: not decidable"));
}

TEST(RoleReport, AnUnknownWorkerOfARunWithoutRolesIsMissingFromTheRun) {
  RoleReport report;
  for (const digest::Digest& digest : Simulate({.workers = 4}).digests) report.Add(digest);
  report.AddMissing("worker-4", "its file is damaged");
  const auto json = nlohmann::json::parse(report.Finish("", "run", kRoom).json);
  EXPECT_FALSE(json.contains("roles"));
  EXPECT_EQ(json["missing"][0]["worker"], "worker-4");
}

TEST(RoleReport, KindsOfWorkersAreBounded) {
  RoleReport report;
  for (std::size_t i = 0; i < RoleReport::kMaxParts + 3; ++i) {
    digest::Digest digest;
    digest.worker = digest.group = "pod-" + std::to_string(i);
    report.Add(digest);
  }
  const MadeReport made = report.Finish("", "run", kRoom);
  const auto json = nlohmann::json::parse(made.json);
  EXPECT_EQ(json["roles"].size(), RoleReport::kMaxParts);
  EXPECT_EQ(json["missingWorkers"], 3);
  EXPECT_THAT(made.headline, HasSubstr("; and 24 more"));
}

}  // namespace
}  // namespace strobe::report
