#include "viewer/report/report_maker.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "collector/trace/digest/compute_digest.h"
#include "collector/trace/report/run_report.h"
#include "common/base/strings.h"
#include "tests/unit/viewer/made_run.h"
#include "tests/unit/viewer/two_workers.h"

namespace strobe::viewer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::shared_ptr<const LoadedRun> TwoLoaded() {
  return std::make_shared<const LoadedRun>(MadeRun(TwoWorkers()));
}

TEST(MakeReport, IsTheReportOfTheSameDigests) {
  const auto run = TwoLoaded();
  report::RunReport expected;
  for (const Worker& worker : run->workers) {
    const auto space = convert::ReadSpace(worker.files->trace.bytes());
    ASSERT_TRUE(space.ok());
    expected.Add(*digest::ComputeDigest(*space, worker.name));
  }
  const Cancellation stop;
  std::atomic<std::size_t> done{0};
  const auto made = MakeReport(*run, kReportDeadline, stop, done);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(*made, expected.Finish("", "run", 4 << 20).json);
  EXPECT_EQ(done, 2u);
  const json report = json::parse(*made);
  EXPECT_THAT(report["headline"].get<std::string>(), HasSubstr("rank 1 takes "));
  EXPECT_NEAR(report["stragglers"]["notDecided"][0]["longerNs"].get<double>(), 30e6, 1e6);
  // The first worker leaves 1 of 40 ms between its steps, so that its last one has no end; the
  // second leaves 1 of 70 ms.
  EXPECT_EQ(report["stragglers"]["steps"], 8);
}

TEST(MakeReport, WorkersThatAreNotReadInTimeAreMissing) {
  const Cancellation stop;
  std::atomic<std::size_t> done{0};
  const auto made = MakeReport(*TwoLoaded(), Nanos{0}, stop, done);
  ASSERT_TRUE(made.ok()) << made.status();
  const json report = json::parse(*made);
  EXPECT_EQ(report["missingWorkers"], 2);
  EXPECT_EQ(report["missing"][0]["why"], "there was no time left to read its trace");
}

// Regression: one damaged trace hid the whole run.
TEST(MakeReport, DamagedWorkersAreMissingAndTold) {
  std::vector<std::string> traces = TwoWorkers();
  traces.insert(traces.begin(), traces[0].substr(0, traces[0].size() - 5));
  const LoadedRun run = MadeRun(traces);
  ASSERT_EQ(run.workers.size(), 2u);
  EXPECT_EQ(run.workers[0].name, "w1");
  EXPECT_FALSE(run.rows.empty());
  const json told = json::parse(DescribeRun(run));
  EXPECT_THAT(told["warnings"][0].get<std::string>(),
              HasSubstr("w0 is not shown: damaged or cut at byte"));
  const Cancellation stop;
  std::atomic<std::size_t> done{0};
  const auto made = MakeReport(run, kReportDeadline, stop, done);
  ASSERT_TRUE(made.ok()) << made.status();
  const json report = json::parse(*made);
  EXPECT_EQ(report["missingWorkers"], 1);
  EXPECT_EQ(report["missing"][0]["worker"], "w0");
}

TEST(MakeReport, IsRefusedOfATraceThatWasChanged) {
  const std::string path =
      (std::filesystem::temp_directory_path() / StrCat("strobe-report-", getpid())).native();
  std::ofstream(path, std::ios::binary) << TwoWorkers()[0];
  std::vector<convert::OpenTrace> traces;
  traces.push_back({"w0", path, *MappedFile::Open(path)});
  Progress progress;
  const absl::StatusOr<LoadedRun> run = LoadRun("run", std::move(traces), {}, 1, progress);
  ASSERT_TRUE(run.ok()) << run.status();
  std::filesystem::resize_file(path, 50);
  const Cancellation stop;
  std::atomic<std::size_t> done{0};
  const auto made = MakeReport(*run, kReportDeadline, stop, done);
  EXPECT_TRUE(absl::IsDataLoss(made.status())) << made.status();
  std::filesystem::remove(path);
}

TEST(MakeReport, EndsWhenItIsStopped) {
  Cancellation stop;
  stop.Cancel();
  std::atomic<std::size_t> done{0};
  EXPECT_EQ(MakeReport(*TwoLoaded(), kReportDeadline, stop, done).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(ReportMaker, MakesItOnAThreadOfItsOwn) {
  ReportMaker maker(TwoLoaded());
  const auto made = maker.Get(std::chrono::seconds(60));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(json::parse(*made)["workers"].size(), 2u);
  EXPECT_EQ(maker.done(), maker.total());
}

}  // namespace
}  // namespace strobe::viewer
