#include "sidecar/source/base/process_reports.h"

#include <gmock/gmock.h>

#include "collector/trace/xplane/summary.h"
#include "tests/fakes/fake_trace.h"

namespace strobe::source {
namespace {

using session::Recording;
using testing::HasSubstr;

v1::ProcessReport Row(const std::string& name, Outcome outcome, const std::string& message = "") {
  v1::ProcessReport row;
  row.set_name(name);
  row.set_outcome(static_cast<v1::Outcome>(outcome));
  row.set_message(message);
  return row;
}

Recording Of(std::vector<v1::ProcessReport> rows, bool trace = true) {
  Recording recording{.outcome = Outcome::kOk, .processes = std::move(rows)};
  if (trace) recording.xspace = FakeTrace(1000, 2000).SerializeAsString();
  ConcludeProcesses(recording);
  return recording;
}

TEST(ConcludeProcesses, TheWorstIsTheWorkers) {
  const Recording recording =
      Of({Row("a", Outcome::kOk), Row("b", Outcome::kEventsDropped, "b: 5 events are missing"),
          Row("c", Outcome::kWorkerLost, "ended"), Row("d", Outcome::kOk)});
  EXPECT_EQ(recording.outcome, Outcome::kWorkerLost);
  EXPECT_EQ(recording.message, "2 of 4 processes were recorded as requested; c: ended");
}

TEST(ConcludeProcesses, OneProcessNeedsNoCount) {
  EXPECT_EQ(Of({Row("a", Outcome::kBusy, "a is busy")}).message, "a is busy");
  EXPECT_EQ(Of({Row("a", Outcome::kOk)}).message, "");
}

TEST(ConcludeProcesses, LeavesWhatIsWorse) {
  Recording recording{.outcome = Outcome::kCancelled, .message = "called off"};
  recording.outcome = Outcome::kAborted;
  recording.processes = {Row("a", Outcome::kLateStart, "late")};
  ConcludeProcesses(recording);
  EXPECT_EQ(recording.message, "called off");
}

Recording Join(Recording framework, Recording agent) {
  return JoinRecordings(std::move(framework), std::move(agent), "agent");
}

TEST(JoinRecordings, OneWithTheOptionsIsEnough) {
  for (const bool first : {true, false}) {
    Recording one = Of({Row("a", Outcome::kOk)}), other = Of({Row("b", Outcome::kOk)});
    (first ? one : other).has_torch_options = true;
    EXPECT_TRUE(Join(std::move(one), std::move(other)).has_torch_options);
  }
}

TEST(JoinRecordings, TheOnlyServerMayBeMissingWhereTheAgentRecords) {
  const Recording joined = Join(Of({Row("localhost:9012", Outcome::kNoSource)}, false),
                                Of({Row("train 7", Outcome::kOk)}));
  EXPECT_EQ(joined.outcome, Outcome::kOk);
  EXPECT_EQ(joined.processes.size(), 1u);
}

// Regression: the traces of the servers that answered were discarded, and the capture ended as Ok.
TEST(JoinRecordings, OneOfSeveralServersThatIsMissingIsTold) {
  const Recording joined =
      Join(Of({Row("localhost:9012", Outcome::kOk),
               Row("localhost:9013", Outcome::kNoSource, "nothing is listening")}),
           Of({Row("train 7", Outcome::kOk)}));
  EXPECT_EQ(joined.outcome, Outcome::kNoSource);
  EXPECT_EQ(joined.message,
            "2 of 3 processes were recorded as requested; localhost:9013: nothing is listening");
  EXPECT_EQ(joined.processes.size(), 3u);
  EXPECT_EQ(xplane::Summarize(joined.xspace)->events, 2u) << "both traces are kept";
}

TEST(JoinRecordings, SeveralServersThatAreAllMissingAreTold) {
  const Recording joined =
      Join(Of({Row("a:1", Outcome::kNoSource), Row("a:2", Outcome::kNoSource)}, false),
           Of({Row("train 7", Outcome::kOk)}));
  EXPECT_EQ(joined.outcome, Outcome::kNoSource);
  EXPECT_EQ(xplane::Summarize(joined.xspace)->events, 1u);
}

TEST(JoinRecordings, AnAgentThatFailedWithoutATraceIsTold) {
  Recording agent{.outcome = Outcome::kWorkerLost, .message = "its ring is gone"};
  const Recording joined = Join(Of({Row("a:1", Outcome::kOk)}), std::move(agent));
  EXPECT_EQ(joined.outcome, Outcome::kWorkerLost);
  EXPECT_EQ(joined.message, "its ring is gone");
  EXPECT_FALSE(joined.xspace.empty());
}

TEST(JoinRecordings, AnAgentsTraceThatIsNoneIsTold) {
  Recording agent = Of({Row("train 7", Outcome::kOk)});
  agent.xspace = "\x0a\xff";
  const Recording joined = Join(Of({Row("a:1", Outcome::kOk)}), std::move(agent));
  EXPECT_EQ(joined.outcome, Outcome::kProfilerStartFailed);
  EXPECT_THAT(joined.message, HasSubstr("not a valid trace"));
  EXPECT_EQ(xplane::Summarize(joined.xspace)->events, 1u);
}

TEST(JoinRecordings, AgentsThatAreGoneAreNobodysLoss) {
  const Recording joined =
      Join(Of({Row("a:1", Outcome::kOk)}), Recording{.outcome = Outcome::kNoSource});
  EXPECT_EQ(joined.outcome, Outcome::kOk);
}

}  // namespace
}  // namespace strobe::source
