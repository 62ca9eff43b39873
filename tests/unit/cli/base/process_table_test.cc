#include "cli/base/process_table.h"

#include <gmock/gmock.h>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "strobe/v1/manifest.pb.h"

namespace strobe::cli {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

v1::ProcessReport Process(const std::string& name, v1::Outcome outcome, std::int64_t started_ns = 0,
                          std::int64_t stopped_ns = 0) {
  v1::ProcessReport process;
  process.set_name(name);
  process.set_outcome(outcome);
  process.set_source(v1::SOURCE_AGENT);
  process.set_started_ns(started_ns);
  process.set_stopped_ns(stopped_ns);
  return process;
}

TEST(ProcessesOf, ReadsTheListInATrace) {
  xplane::PlaneBuilder plane(xplane::kStrobePlane);
  plane.AddPlaneStat(
      xplane::kProcess,
      std::string_view(R"({"name": "python 7", "events": "5", "ofALaterVersion": 1})"));
  plane.AddPlaneStat(xplane::kProcess, std::string_view(R"({"name": "python 8"})"));
  plane.AddPlaneStat(xplane::kProcessesLeftOut, std::int64_t{3});
  const std::string bytes = plane.Encode();
  const auto processes = ProcessesOf(*xplane::Space::Read(bytes));
  ASSERT_TRUE(processes.ok()) << processes.status();
  ASSERT_THAT(processes->rows, SizeIs(2));
  EXPECT_EQ(processes->rows[0].name(), "python 7");
  EXPECT_EQ(processes->rows[0].events(), 5u);
  EXPECT_EQ(processes->left_out, 3u);
}

TEST(ProcessesOf, ATraceOfAnotherToolHasNone) {
  const std::string bytes = xplane::PlaneBuilder("/host:CPU").Encode();
  const auto processes = ProcessesOf(*xplane::Space::Read(bytes));
  ASSERT_TRUE(processes.ok()) << processes.status();
  EXPECT_THAT(processes->rows, SizeIs(0));
}

TEST(ProcessesOf, AListThatCannotBeReadIsDataLoss) {
  xplane::PlaneBuilder plane(xplane::kStrobePlane);
  plane.AddPlaneStat(xplane::kProcess, std::string_view("{"));
  const std::string bytes = plane.Encode();
  EXPECT_EQ(ProcessesOf(*xplane::Space::Read(bytes)).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ProcessesOf, ReadsAnEntryOfTheManifest) {
  v1::ManifestWorker worker;
  *worker.add_processes() = Process("python 7", v1::OK);
  worker.set_processes_left_out(2);
  const Processes processes = ProcessesOf(worker);
  EXPECT_THAT(processes.rows, SizeIs(1));
  EXPECT_EQ(processes.left_out, 2u);
}

TEST(WorthShowing, OnlyWhatTheWorkersOutcomeDoesNotTell) {
  const v1::ProcessReport ok = Process("python 7", v1::OK);
  EXPECT_FALSE(WorthShowing({}, Outcome::kOk));
  EXPECT_FALSE(WorthShowing({{ok}}, Outcome::kOk));
  EXPECT_TRUE(WorthShowing({{ok}}, Outcome::kLateStart)) << "another outcome than the worker's";
  EXPECT_TRUE(WorthShowing({{ok, ok}}, Outcome::kOk)) << "several";
}

TEST(ProcessTable, CountsTimesFromTheFirstStart) {
  const std::string table =
      ProcessTable({{Process("python 8", v1::OK, 1'002'000'000, 3'002'000'000),
                     Process("python 7", v1::OK, 1'000'000'000, 3'000'000'000),
                     Process("server:9012", v1::UNREACHABLE)},
                    4});
  EXPECT_THAT(table, HasSubstr("python 8      agent    Ok            2ms           2s         -"));
  EXPECT_THAT(table, HasSubstr("python 7      agent    Ok            0s            2s"));
  EXPECT_THAT(table, HasSubstr("server:9012   agent    Unreachable   -             -"));
  EXPECT_THAT(table, HasSubstr("\n... 4 more processes\n"));
}

TEST(ProcessTable, TellsWhatAProcessSaid) {
  v1::ProcessReport process = Process("train.py 7", v1::LATE_START, 1, 2);
  EXPECT_FALSE(SaidMore({{process}}));
  process.set_stop_took_ns(230'000'000);
  EXPECT_TRUE(SaidMore({{process}}));
  process.set_message("late");
  process.set_note("one thread only");
  EXPECT_THAT(ProcessTable({{process}}), HasSubstr("230ms"));
  EXPECT_THAT(ProcessTable({{process}}), HasSubstr("late; one thread only\n"));
  process.set_stop_took_ns(0);
  EXPECT_TRUE(SaidMore({{process}}));
}

TEST(ProcessesJson, HasAnObjectPerProcess) {
  v1::ProcessReport framework = Process("server:9012", v1::UNREACHABLE);
  framework.set_source(v1::SOURCE_FRAMEWORK);
  framework.set_message("connection refused");
  framework.set_note("told");
  framework.set_stop_took_ns(7);
  const auto list = ProcessesJson({{Process("python 7", v1::OK, 1000, 3000), framework}});
  ASSERT_THAT(list, SizeIs(2));
  EXPECT_EQ(list[0]["startedNs"], 1000);
  EXPECT_EQ(list[0]["stoppedNs"], 3000);
  EXPECT_EQ(list[0]["source"], "agent");
  EXPECT_EQ(list[1]["source"], "framework");
  EXPECT_EQ(list[1]["outcome"], "Unreachable");
  EXPECT_EQ(list[1]["message"], "connection refused");
  EXPECT_EQ(list[1]["note"], "told");
  EXPECT_EQ(list[1]["stopTookNs"], 7);
}

}  // namespace
}  // namespace strobe::cli
