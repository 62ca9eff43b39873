#include "sidecar/source/auto_source.h"

#include <gmock/gmock.h>

#include "sidecar/source/base/process_ranks.h"
#include "tests/fakes/fake_trace.h"

namespace strobe::source {
namespace {

using session::Recording;

class OneSource final : public session::Source {
 public:
  explicit OneSource(v1::SourceKind kind) : kind_(kind) {}
  std::vector<v1::Source> Probe(Nanos) override {
    if (!there) return {};
    v1::Source source;
    source.set_kind(kind_);
    source.set_ready(ready);
    return {source};
  }
  std::vector<v1::StepPace> Steps() override {
    if (loop.empty()) return {};
    v1::StepPace pace;
    ++asked;
    pace.set_loop(loop);
    pace.set_teller("7.sock");
    return {pace};
  }
  Nanos lead() const override { return std::chrono::milliseconds(kind_); }
  std::vector<Recording> Record(const v1::CapturePlan& plan, const Cancellation&,
                                const Cancellation& terminate,
                                const std::function<void()>& collecting) override {
    ++records;
    recorded = plan;
    if (waits_for_end) ended = terminate.WaitFor(std::chrono::seconds(10));
    collecting();
    if (!there) return session::OneRecording({Outcome::kNoSource, "nobody announced himself", ""});
    if (outcome == Outcome::kNoSource) return session::OneRecording({outcome, "nobody", ""});
    if (local_ranks.empty()) {
      Recording recording{outcome, "", FakeTrace(1, 2).SerializeAsString()};
      v1::ProcessReport& row = recording.processes.emplace_back();
      row.set_source(kind_);
      row.set_outcome(static_cast<v1::Outcome>(outcome));
      return session::OneRecording(std::move(recording));
    }
    std::vector<Recording> recordings;
    for (const int local_rank : local_ranks) {
      recordings.push_back({outcome, "", FakeTrace(1, 2).SerializeAsString()});
      recordings.back().rank = RankOf(-1, local_rank, -1);
    }
    return recordings;
  }
  const v1::SourceKind kind_;
  bool there = true, ready = true;
  Outcome outcome = Outcome::kOk;
  int records = 0, asked = 0;
  std::vector<int> local_ranks{};
  std::string loop{};  // The loop whose steps it tells.
  bool waits_for_end = false, ended = false;
  v1::CapturePlan recorded{};
};

class AutoSourceTest : public testing::Test {
 protected:
  AutoSourceTest() { inproc_.there = false; }
  Recording Record(v1::SourceKind kind) {
    v1::CapturePlan plan;
    plan.set_source(kind);
    std::vector<Recording> recordings = RecordAll(plan);
    EXPECT_EQ(recordings.size(), 1u);
    return std::move(recordings.front());
  }
  std::vector<Recording> RecordAll(const v1::CapturePlan& plan) {
    return both_.Record(plan, cancel_, terminate_, [this] { ++collecting_; });
  }
  static int Planes(const Recording& recording) {
    tensorflow::profiler::XSpace space;
    EXPECT_TRUE(space.ParseFromString(recording.xspace));
    return space.planes_size();
  }
  static int Warnings(const Recording& recording) {
    tensorflow::profiler::XSpace space;
    EXPECT_TRUE(space.ParseFromString(recording.xspace));
    return space.warnings_size();
  }
  OneSource framework_{v1::SOURCE_FRAMEWORK}, inproc_{v1::SOURCE_FRAMEWORK},
      agent_{v1::SOURCE_AGENT};
  AutoSource both_{framework_, inproc_, agent_};
  Cancellation cancel_, terminate_;
  int collecting_ = 0;
};

TEST_F(AutoSourceTest, EachLocalRankIsAWorkerOfAllParts) {
  inproc_.there = true;
  framework_.outcome = Outcome::kNoSource;
  inproc_.local_ranks = {0, 1};
  agent_.local_ranks = {1, 2};
  const std::vector<Recording> recordings = RecordAll({});
  ASSERT_EQ(recordings.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(recordings[i].rank->local_rank(), i);
  EXPECT_EQ(Planes(recordings[0]), 2);
  EXPECT_EQ(Planes(recordings[1]), 4);
  EXPECT_EQ(Planes(recordings[2]), 2);
  v1::CapturePlan one;
  one.set_one_trace(true);
  ASSERT_EQ(RecordAll(one).size(), 1u);
}

TEST_F(AutoSourceTest, JoinsBothAndSaysOnceThatTheyCollect) {
  EXPECT_EQ(Planes(Record(v1::SOURCE_AUTO)), 4);
  EXPECT_EQ(collecting_, 1);
}

TEST_F(AutoSourceTest, DoesWhatThePlanSays) {
  EXPECT_EQ(Planes(Record(v1::SOURCE_FRAMEWORK)), 2);
  EXPECT_EQ(agent_.records, 0);
  Record(v1::SOURCE_AGENT);
  EXPECT_EQ(framework_.records, 1);
}

TEST_F(AutoSourceTest, OneOfThemIsEnough) {
  framework_.outcome = Outcome::kNoSource;
  Recording recording = Record(v1::SOURCE_AUTO);
  EXPECT_EQ(recording.outcome, Outcome::kOk);
  EXPECT_EQ(Planes(recording), 2);
  framework_.outcome = Outcome::kOk;
  agent_.outcome = Outcome::kNoSource;
  recording = Record(v1::SOURCE_AUTO);
  EXPECT_EQ(recording.outcome, Outcome::kOk);
  EXPECT_EQ(Planes(recording), 2);
}

// The agent is asked even if it is not ready, because a program that starts during the window
// belongs to the worker.
TEST_F(AutoSourceTest, TheAgentRecordsAlsoBeforeAnybodyIsThere) {
  agent_.ready = false;
  EXPECT_EQ(Planes(Record(v1::SOURCE_AUTO)), 4);
}

TEST_F(AutoSourceTest, TheWorseOutcomeStands) {
  agent_.outcome = Outcome::kEventsDropped;
  EXPECT_EQ(Record(v1::SOURCE_AUTO).outcome, Outcome::kEventsDropped);
  framework_.outcome = Outcome::kBusy;
  EXPECT_EQ(Record(v1::SOURCE_AUTO).outcome, Outcome::kBusy);
}

TEST_F(AutoSourceTest, ProcessesThatAnnouncedThemselvesAreRecordedToo) {
  inproc_.there = true;
  EXPECT_EQ(Planes(Record(v1::SOURCE_AUTO)), 6);
  EXPECT_EQ(collecting_, 1);
  EXPECT_EQ(Planes(Record(v1::SOURCE_FRAMEWORK)), 4);
  // Nobody misses the server that injection configures.
  framework_.outcome = Outcome::kNoSource;
  EXPECT_EQ(Record(v1::SOURCE_FRAMEWORK).outcome, Outcome::kOk);
  inproc_.outcome = Outcome::kTruncated;
  EXPECT_EQ(Record(v1::SOURCE_AUTO).outcome, Outcome::kTruncated);
  framework_.ready = false;
  EXPECT_EQ(both_.Probe(Nanos{0}).size(), 2u);
}

TEST_F(AutoSourceTest, MissingPythonCallsAreToldOnlyWhereNobodyRecordsThem) {
  v1::CapturePlan plan;
  plan.mutable_tracers()->set_python(1);
  framework_.outcome = Outcome::kNoSource;
  EXPECT_EQ(Warnings(RecordAll(plan).front()), 1);
  inproc_.there = true;
  EXPECT_EQ(Warnings(RecordAll(plan).front()), 0) << "PyTorch, for example";
  plan.set_source(v1::SOURCE_AGENT);
  EXPECT_EQ(Warnings(RecordAll(plan).front()), 1);
  plan.mutable_tracers()->set_python(0);
  EXPECT_EQ(Warnings(RecordAll(plan).front()), 0);
}

TEST_F(AutoSourceTest, KinetosDaemonIsAFourthPart) {
  OneSource kineto(v1::SOURCE_FRAMEWORK);
  AutoSource all(framework_, inproc_, agent_, &kineto);
  v1::CapturePlan plan;
  EXPECT_EQ(Planes(all.Record(plan, cancel_, terminate_, [] {}).front()), 6);
  plan.set_container("trainer");
  EXPECT_EQ(Planes(all.Record(plan, cancel_, terminate_, [] {}).front()), 2)
      << "it does not know containers";
  plan.clear_container();
  kineto.outcome = Outcome::kTruncated;
  EXPECT_EQ(all.Record(plan, cancel_, terminate_, [] {}).front().outcome, Outcome::kTruncated);
  kineto.there = false;
  EXPECT_EQ(all.Record(plan, cancel_, terminate_, [] {}).front().outcome, Outcome::kOk);
}

TEST_F(AutoSourceTest, KinetosDaemonIsMissedOnlyWhereNothingElseIsThere) {
  OneSource kineto(v1::SOURCE_FRAMEWORK);
  AutoSource all(framework_, inproc_, agent_, &kineto);
  kineto.ready = false;
  EXPECT_EQ(all.Probe(Nanos{0}).size(), 2u) << "server and agent";
  framework_.ready = false;
  EXPECT_EQ(all.Probe(Nanos{0}).size(), 1u) << "the agent is enough";
  agent_.ready = false;
  EXPECT_EQ(all.Probe(Nanos{0}).size(), 3u) << "nothing is there: say all";
  kineto.ready = true;
  EXPECT_EQ(all.Probe(Nanos{0}).size(), 1u) << "nobody misses the others";
}

TEST_F(AutoSourceTest, OnlyWithProcessesThatAskTheLeadIsKinetos) {
  OneSource none(v1::SOURCE_AUTO), some(static_cast<v1::SourceKind>(5000));
  const Nanos without = both_.lead();
  EXPECT_EQ(AutoSource(framework_, inproc_, agent_, &none).lead(), without);
  EXPECT_GE(AutoSource(framework_, inproc_, agent_, &some).lead(), std::chrono::seconds(5));
}

class AutoStepsTest : public AutoSourceTest {
 protected:
  AutoStepsTest() { inproc_.there = true; }
  Recording RecordSteps() {
    v1::CapturePlan plan;
    plan.set_steps(5);
    plan.set_step_loop("train");
    plan.set_duration_ns(10);
    plan.set_steps_by_ns(1000);
    return std::move(RecordAll(plan).front());
  }
};

TEST_F(AutoStepsTest, WhoTellsNoStepsIsRecordedAsLongAsThosesWhoDo) {
  inproc_.loop = "train";
  agent_.loop = "eval";
  agent_.waits_for_end = true;
  EXPECT_EQ(Planes(RecordSteps()), 4);
  EXPECT_TRUE(agent_.ended);
  EXPECT_EQ(framework_.records, 0) << "a process has one profiler session";
  EXPECT_EQ(collecting_, 1);
  EXPECT_EQ(inproc_.recorded.steps_by_ns(), 1000);
  EXPECT_EQ(inproc_.asked, 1);
  EXPECT_THAT(inproc_.recorded.step_tellers(), testing::ElementsAre("7.sock"));
}

TEST_F(AutoStepsTest, WhoTellsStepsEndsByItself) {
  inproc_.loop = agent_.loop = "train";
  EXPECT_EQ(Planes(RecordSteps()), 4);
  agent_.waits_for_end = true;
  terminate_.Cancel();
  RecordSteps();
  EXPECT_TRUE(agent_.ended) << "somebody ended it early";
}

TEST_F(AutoStepsTest, WithoutTellersTheExpectedTimeIsRecorded) {
  RecordSteps();
  EXPECT_EQ(framework_.records, 1);
  EXPECT_EQ(agent_.recorded.steps_by_ns(), 10);
}

TEST_F(AutoSourceTest, WithoutThemTheServersMessageStands) {
  framework_.outcome = Outcome::kNoSource;
  EXPECT_EQ(Record(v1::SOURCE_FRAMEWORK).message, "nobody");
}

TEST_F(AutoSourceTest, NamesOnlyWhatMatters) {
  EXPECT_EQ(both_.Probe(Nanos{0}).size(), 2u);
  framework_.ready = false;
  EXPECT_EQ(both_.Probe(Nanos{0}).size(), 1u) << "the agent is enough";
  agent_.ready = false;
  EXPECT_EQ(both_.Probe(Nanos{0}).size(), 2u) << "nothing is there: say both";
  framework_.ready = true;
  ASSERT_EQ(both_.Probe(Nanos{0}).size(), 1u);
  EXPECT_TRUE(both_.Probe(Nanos{0})[0].ready());
}

}  // namespace
}  // namespace strobe::source
