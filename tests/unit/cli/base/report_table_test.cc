#include "cli/base/report_table.h"

#include <gmock/gmock.h>

namespace strobe::cli {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

capture::WorkerResult Recorded(const std::string& name, Nanos start) {
  capture::WorkerResult worker;
  worker.target.name = worker.target.file = name;
  worker.armed = true;
  worker.outcome = Outcome::kOk;
  worker.offset = -80us;
  worker.error = 10us;
  worker.report.set_url("file:///logs/plugins/profile/run/" + name + ".xplane.pb");
  worker.report.set_events(1234);
  worker.report.set_bytes(176'000);
  worker.report.set_covers_window(true);
  worker.report.set_started_ns((1000s + start).count());
  return worker;
}

std::string Render(const std::string& logdir, std::vector<capture::WorkerResult> workers) {
  capture::Spec spec;
  spec.logdir = logdir;
  capture::AttemptResult result;
  result.run = "run";
  result.workers = std::move(workers);
  capture::Conclude(spec, result);
  return RenderTable(spec, result);
}

TEST(AlignRows, NamesFromATraceCannotMoveTheCursor) {
  EXPECT_EQ(AlignRows({{"SELF", "EVENT"}, {"1ms", "evil\033]0;x\a\nverdict: Ok"}}),
            "SELF   EVENT\n1ms    evil ]0;x  verdict: Ok\n");
}

TEST(AlignRows, AlignsColumnsAndLeavesNoSpacesAtTheEnd) {
  EXPECT_EQ(AlignRows({{"A", "LONGER", "C"}, {"wide one", "x", ""}, {"only"}}),
            "A          LONGER   C\n"
            "wide one   x\n"
            "only\n");
  EXPECT_EQ(AlignRows({}), "");
}

TEST(FormatBytes, HasThreeDigitsAndDecimalUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(999), "999 B");
  EXPECT_EQ(FormatBytes(1000), "1 kB");
  EXPECT_EQ(FormatBytes(1'234'567), "1.23 MB");
  EXPECT_EQ(FormatBytes(64'000'000'000), "64 GB");
  EXPECT_EQ(FormatBytes(5'000'000'000'000'000), "5e+03 TB") << "beyond the last unit";
}

TEST(FormatWithError, SaysWhenNothingWasMeasured) {
  EXPECT_EQ(FormatWithError(12ms, 300us), "12ms +-300us");
  EXPECT_EQ(FormatWithError(12ms, std::nullopt), "not measured");
}

TEST(RenderTable, HasALinePerWorkerThenSkewAndWhereTheRunIs) {
  const std::string table = Render("/logs", {Recorded("a", 0us), Recorded("b", 300us)});
  EXPECT_THAT(table, StartsWith("WORKER   OUTCOME"));
  EXPECT_THAT(table, HasSubstr("\na        Ok"));
  EXPECT_THAT(table, HasSubstr("-80us +-10us   1234     176 kB\n"));
  EXPECT_THAT(table, HasSubstr("\nskew: 300us +-20us\nsynchronized: yes, "));
  EXPECT_THAT(table, HasSubstr("\nrun: file:///logs/plugins/profile/run\n"));
  EXPECT_THAT(table, HasSubstr("\nopen it: strobe view /logs   or xprof --logdir /logs\n"));
  EXPECT_THAT(table, Not(HasSubstr("processes of")));
}

TEST(RenderTable, SaysWhatToDoAboutAWorkerThatFailed) {
  capture::WorkerResult lost;
  lost.target.name = "b";
  lost.outcome = Outcome::kUnreachable;
  lost.message = "connection refused";
  const std::string table = Render("gs://bucket/logs", {Recorded("a", 0us), lost});
  EXPECT_THAT(table, HasSubstr("b        Unreachable   -          -              -        -        "
                               "connection refused\n"));
  EXPECT_THAT(table,
              HasSubstr("\nb: " + std::string(Describe(Outcome::kUnreachable).remedy) + "\n"));
  EXPECT_THAT(table, HasSubstr("synchronized: no, "));
  EXPECT_THAT(table, HasSubstr("open it: strobe view gs://bucket/logs\n"));
}

TEST(RenderTable, CallsASkewWithoutErrorNotMeasured) {
  capture::WorkerResult stock = Recorded("b", 300us);
  stock.error.reset();
  EXPECT_THAT(Render("/logs", {Recorded("a", 0us), stock}),
              HasSubstr("skew: not measured (300us if all clocks agree)"));
}

TEST(RenderTable, ShowsTheProcessesOfAWorkerThatHasSeveral) {
  capture::WorkerResult worker = Recorded("a", 0us);
  for (const char* name : {"python 7", "python 8"}) {
    v1::ProcessReport* process = worker.report.add_processes();
    process->set_name(name);
    process->set_outcome(v1::OK);
  }
  EXPECT_THAT(Render("/logs", {worker}), HasSubstr("\nprocesses of a\nPROCESS    SOURCE"));
}

TEST(RenderTable, NamesNoRunWhenNothingWasWritten) {
  capture::WorkerResult lost;
  lost.target.name = "a";
  lost.outcome = Outcome::kUnreachable;
  EXPECT_THAT(Render("/logs", {lost}), Not(HasSubstr("run: ")));
}

}  // namespace
}  // namespace strobe::cli
