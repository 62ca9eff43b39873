#include "cli/base/runs.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/fakes/memory_store.h"

namespace strobe::cli {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kManifest[] = R"({
  "format": 1, "request": "team/look", "run": "2026_b", "attempt": 2, "result": "Succeeded",
  "message": "2/2 workers Ok", "instantNs": "1000", "skewKnown": true, "skewNs": "300000",
  "skewErrorNs": "20000", "job": "Job/llm", "requester": "jane", "synchronized": true, "ofALaterVersion": 1, "workers": [
    {"name": "w0", "outcome": "Ok", "bytes": "1000", "events": "5", "startedNs": "7",
     "latenessNs": "-2000000", "clockOffsetNs": "80000", "clockErrorNs": "10000"},
    {"name": "w1", "outcome": "LateStart", "bytes": "500", "clockErrorNs": "-1",
     "message": "recording began 7ms after the instant"}]})";

class RunsTest : public testing::Test {
 protected:
  void Write(const std::string& key, const std::string& text) {
    ASSERT_TRUE(storage::PutText(store_, key, text).ok());
  }

  MemoryBucket bucket_;
  MemoryStore store_{bucket_};
};

TEST(ParseRunLocation, TellsALogdirFromOneOfItsRuns) {
  const auto logdir = ParseRunLocation("gs://bucket/logs/");
  ASSERT_TRUE(logdir.ok()) << logdir.status();
  EXPECT_EQ(logdir->logdir.url(), "gs://bucket/logs");
  EXPECT_EQ(logdir->run, "");

  const auto run = ParseRunLocation("s3://bucket/logs/plugins/profile/2026_b/?region=eu-west-1");
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->logdir.url(), "s3://bucket/logs");
  EXPECT_EQ(run->logdir.options().at("region"), "eu-west-1");
  EXPECT_EQ(run->run, "2026_b");

  const auto root = ParseRunLocation("/plugins/profile/2026_b");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->logdir.url(), "file:///");
  EXPECT_EQ(root->run, "2026_b");
}

TEST(ParseRunLocation, RefusesWhatIsNoPlaceOfARun) {
  for (const char* wrong : {"", "logs", "/logs/plugins/profile/../x", "/logs/plugins/profile/a/b"})
    EXPECT_EQ(ParseRunLocation(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
}

TEST_F(RunsTest, ListsTheNewestRunFirst) {
  for (const char* run : {"2025_a", "2026_b", "2024_c"}) Write(storage::TraceKey(run, "w0"), "x");
  Write("elsewhere/x", "x");
  const auto runs = ListRuns(store_);
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_THAT(*runs, ElementsAre("2026_b", "2025_a", "2024_c"));
}

TEST_F(RunsTest, AFolderWithoutFilesIsNoRun) {
  Write(storage::RunPrefix("2027_console"), "");
  Write(storage::RunPrefix("2027_mount") + "/", "");
  for (const char* run : {"2025_a", "2026_b", "2024_c"}) Write(storage::TraceKey(run, "w0"), "x");
  const std::vector<std::string> folders = *ListRuns(store_);
  EXPECT_EQ(folders.size(), 5u) << "rm deletes them too";
  EXPECT_THAT(FirstRuns(store_, folders, 1), ElementsAre("2026_b"));
  EXPECT_THAT(FirstRuns(store_, folders, 100), ElementsAre("2026_b", "2025_a", "2024_c"));
  EXPECT_TRUE(ReadRun(store_, "2027_console").empty);
  EXPECT_FALSE(ReadRun(store_, "2026_b").empty);
  bucket_.before = [](const std::string&) { return absl::PermissionDeniedError("not you"); };
  EXPECT_THAT(FirstRuns(store_, folders, 1), ElementsAre(folders[0]))
      << "its problem is told later";
  EXPECT_FALSE(ReadRun(store_, "2027_console").empty);
}

// Regression: ls of such a run ended with std::out_of_range.
TEST_F(RunsTest, KeysThatAreNoFilesAreNotCountedAndNotShown) {
  Write(storage::TraceKey("2026_b", "w0"), "four");
  Write(storage::RunPrefix("2026_b") + "sub/w1.xplane.pb", "five5");
  Write(storage::RunPrefix("2026_b") + ".xplane.pb", "");
  for (const std::string& key : OddKeys("2026_b")) Write(key, "odd");
  bucket_.strays = OddKeys("2026_b");
  const RunSummary run = ReadRun(store_, "2026_b");
  EXPECT_EQ(run.workers, 1u) << "of a trace in another folder nobody tells the worker";
  EXPECT_EQ(run.bytes, 9u);
  const auto objects = storage::ListAll(store_, storage::RunPrefix("2026_b"));
  EXPECT_THAT(RunTable(run, *objects), testing::EndsWith("OBJECT             BYTES\n"
                                                         ".xplane.pb         0 B\n"
                                                         "sub/w1.xplane.pb   5 B\n"
                                                         "w0.xplane.pb       4 B\n"));
}

TEST_F(RunsTest, AManifestDescribesItsRun) {
  Write(storage::ManifestKey("2026_b"), kManifest);
  const RunSummary run = ReadRun(store_, "2026_b");
  ASSERT_TRUE(run.manifest.has_value()) << run.problem;
  EXPECT_EQ(run.bytes, 1500u);
  EXPECT_EQ(run.workers, 2u);
  EXPECT_EQ(RunsTable({run}),
            "RUN      RESULT      WORKERS   SKEW           BYTES    REQUEST     REPORT\n"
            "2026_b   Succeeded   1/2       300us +-20us   1.5 kB   team/look\n");
}

TEST_F(RunsTest, TheHeadlineOfTheReportIsShown) {
  Write(storage::ManifestKey("2026_b"), kManifest);
  Write(storage::ReportKey("2026_b"),
        R"({"format":1,"headline":"rank 5 is late\u001b[31m","steps":)");
  const std::vector<RunSummary> runs = ReadRuns(store_, {"2026_b"});
  EXPECT_THAT(RunsTable(runs), HasSubstr("team/look   rank 5 is late [31m\n"));
  EXPECT_THAT(RunTable(runs.front(), {}), HasSubstr("rank 5 is late [31m\nSucceeded: 2/2"));
  EXPECT_EQ(json::parse(RunsJson(*storage::Logdir::Parse("/logs"), runs))[0]["headline"],
            "rank 5 is late\u001b[31m");
}

TEST_F(RunsTest, WithoutAManifestTheTracesAreCounted) {
  Write(storage::TraceKey("2026_b", "w0"), "four");
  Write(storage::RunPrefix("2026_b") + "notes.txt", "x");
  const RunSummary run = ReadRun(store_, "2026_b");
  EXPECT_FALSE(run.manifest.has_value());
  EXPECT_EQ(run.workers, 1u);
  EXPECT_EQ(run.bytes, 5u);
  EXPECT_EQ(run.problem, "");
  EXPECT_THAT(RunsTable({run}), HasSubstr("2026_b   no strobe.json   ?/1       -      5 B\n"));
}

TEST_F(RunsTest, AManifestThatCannotBeReadIsAProblemOfThatRunOnly) {
  Write(storage::ManifestKey("2026_b"), "{");
  Write(storage::ManifestKey("2026_c"), kManifest);
  const std::vector<RunSummary> runs = ReadRuns(store_, {"2026_c", "2026_b"});
  EXPECT_EQ(runs[0].problem, "");
  EXPECT_EQ(runs[1].problem, "its strobe.json cannot be read");
}

TEST_F(RunsTest, AStoreThatRefusesIsAProblem) {
  bucket_.before = [](const std::string&) { return absl::PermissionDeniedError("not you"); };
  EXPECT_EQ(ReadRun(store_, "2026_b").problem, "not you");
}

TEST_F(RunsTest, JsonLeavesOutWhatIsNotKnown) {
  Write(storage::ManifestKey("2026_b"), kManifest);
  Write(storage::TraceKey("2025_a", "w0"), "four");
  const json runs = json::parse(
      RunsJson(*storage::Logdir::Parse("/logs"), ReadRuns(store_, {"2026_b", "2025_a"})));
  EXPECT_EQ(runs[0]["url"], "file:///logs/plugins/profile/2026_b");
  EXPECT_EQ(runs[0]["ok"], 1);
  EXPECT_EQ(runs[0]["job"], "Job/llm");
  EXPECT_EQ(runs[0]["requester"], "jane");
  EXPECT_EQ(runs[0]["skewNs"], 300'000);
  EXPECT_EQ(runs[0]["synchronized"], true);
  EXPECT_EQ(runs[1]["manifest"], false);
  EXPECT_EQ(runs[1]["workers"], 1);
  for (const char* unknown : {"result", "skewNs", "problem", "headline"})
    EXPECT_FALSE(runs[1].contains(unknown)) << unknown;
}

// Regression: one such folder in a logdir ended the command with an exception.
TEST_F(RunsTest, JsonReplacesWhatIsNoUtf8) {
  const json runs = json::parse(RunsJson(*storage::Logdir::Parse("/logs"), {{.run = "caf\xe9"}}));
  EXPECT_EQ(runs[0]["run"], "caf\uFFFD");
}

TEST(ObjectJson, IsOnOneLine) {
  EXPECT_EQ(ObjectJson({"plugins/profile/r/w0.xplane.pb", 1000}),
            R"({"key":"plugins/profile/r/w0.xplane.pb","bytes":1000})");
  EXPECT_EQ(json::parse(ObjectJson({"caf\xe9", 1}))["key"], "caf\uFFFD");
}

TEST_F(RunsTest, OneRunShowsItsWorkersAndObjects) {
  Write(storage::ManifestKey("2026_b"), kManifest);
  const std::string text =
      RunTable(ReadRun(store_, "2026_b"), {{.key = storage::TraceKey("2026_b", "w0"),
                                            .bytes = 1000,
                                            .name_begin = storage::RunPrefix("2026_b").size()}});
  EXPECT_THAT(text, StartsWith("WORKER   OUTCOME     LATENESS   CLOCK OFFSET   EVENTS   BYTES"));
  EXPECT_THAT(text, HasSubstr("w0       Ok          -2ms       80us +-10us    5        1 kB\n"));
  EXPECT_THAT(text, HasSubstr("w1       LateStart   -          not measured   0        500 B   "
                              "recording began 7ms after the instant\n"));
  EXPECT_THAT(text, HasSubstr("Succeeded: 2/2 workers Ok\nskew: 300us +-20us\n"
                              "request: team/look, attempt 2\njob: Job/llm\nrequester: jane\n"));
  EXPECT_THAT(text, HasSubstr("\nOBJECT         BYTES\nw0.xplane.pb   1 kB\n"));
}

}  // namespace
}  // namespace strobe::cli
