#include "sidecar/source/base/framework_answers.h"

#include <gmock/gmock.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "collector/trace/xplane/summary.h"
#include "sidecar/source/base/process_reports.h"
#include "tensorflow/profiler_service.pb.h"
#include "tests/fakes/fake_trace.h"
#include "tests/fakes/stepped_clock.h"

namespace strobe::source {
namespace {

using session::Recording;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

class JoinAnswersTest : public testing::Test {
 protected:
  JoinAnswersTest() {
    plan_.set_instant_ns(ToUnixNanos(clock_.WallNow()));
    plan_.set_duration_ns(Nanos(std::chrono::milliseconds(50)).count());
    plan_.set_deadline_ns(plan_.instant_ns() + Nanos(std::chrono::seconds(30)).count());
    plan_.mutable_tracers()->set_host(2);
  }
  // The answer of a process that ran `events` operators.
  FrameworkAnswer Of(const std::string& name, Role role, int events, Rank rank = std::nullopt) {
    FrameworkAnswer answer{.address = name, .who = "torch in " + name};
    const std::int64_t around = 1'000'000;
    answer.trace = FakeTrace(plan_.instant_ns() - around,
                             plan_.instant_ns() + plan_.duration_ns() + around, events)
                       .SerializeAsString();
    answer.role = role;
    answer.rank = std::move(rank);
    return answer;
  }
  FrameworkAnswer Failed(const std::string& name, Role role, Outcome outcome) {
    FrameworkAnswer answer{.address = name, .who = "torch in " + name};
    answer.verdict = {outcome, "torch in " + name + " failed"};
    answer.role = role;
    return answer;
  }
  template <typename... Answers>
  std::vector<Recording> Join(Answers... answers) {
    std::vector<FrameworkAnswer> all;
    (all.push_back(std::move(answers)), ...);
    return JoinAnswers(plan_, RecordingTimes(clock_, plan_), 1 << 20, std::move(all));
  }
  static std::vector<std::string> Planes(const Recording& recording) {
    const auto summary = xplane::Summarize(recording.xspace);
    std::vector<std::string> names;
    for (const auto& plane : summary->planes) names.push_back(plane.name);
    return names;
  }

  SteppedClock clock_;
  v1::CapturePlan plan_{};
};

// Regression: an idle front end made the whole worker NoHostEvents, and the capture was repeated.
TEST_F(JoinAnswersTest, AnIdleCompanionIsLeftOutAndItsRowSaysWhy) {
  const auto recordings =
      Join(Of("api 1", Role::kCompanion, 0), Of("worker 2", Role::kWorker, 7, RankOf(0, -1, 1)));
  ASSERT_THAT(recordings, SizeIs(1));
  EXPECT_EQ(recordings[0].outcome, Outcome::kOk) << recordings[0].message;
  EXPECT_EQ(recordings[0].rank->rank(), 0u);
  ASSERT_THAT(recordings[0].processes, SizeIs(2));
  const v1::ProcessReport& api = recordings[0].processes[0];
  EXPECT_EQ(api.outcome(), v1::OK);
  EXPECT_TRUE(IsLeftOut(api));
  EXPECT_THAT(api.note(), HasSubstr("ran nothing"));
  EXPECT_EQ(api.started_ns(), 0);
  EXPECT_EQ(recordings[0].processes[1].events(), 7u);
  EXPECT_FALSE(IsLeftOut(recordings[0].processes[1]));
  EXPECT_THAT(Planes(recordings[0]), ElementsAre("/host:CPU", "Task Environment"))
      << "the worker's planes are the only ones, so that they need no tag";
}

TEST_F(JoinAnswersTest, ACompanionThatRanSomethingIsRecorded) {
  const auto recordings = Join(Of("rollout 1", Role::kCompanion, 3),
                               Of("trainer 2", Role::kWorker, 7, RankOf(0, 0, 1)));
  EXPECT_EQ(recordings[0].outcome, Outcome::kOk);
  EXPECT_EQ(recordings[0].processes[0].events(), 3u);
  EXPECT_EQ(recordings[0].processes[0].note(), "");
  EXPECT_THAT(Planes(recordings[0]), SizeIs(4));
}

TEST_F(JoinAnswersTest, WhateverBecomesOfACompanionTheCaptureIsWhole) {
  for (const Outcome outcome : {Outcome::kBusy, Outcome::kWorkerLost, Outcome::kLateStart}) {
    const auto recordings =
        Join(Failed("api 1", Role::kCompanion, outcome), Of("worker 2", Role::kWorker, 7));
    EXPECT_EQ(recordings[0].outcome, Outcome::kOk) << Name(outcome);
    EXPECT_THAT(recordings[0].processes[0].note(), StartsWith("left out: torch in api 1 failed"));
  }
  FrameworkAnswer late = Of("rollout 1", Role::kCompanion, 3);
  late.verdict = {Outcome::kTruncated, "it profiles itself"};
  const auto recordings = Join(std::move(late), Of("trainer 2", Role::kWorker, 7));
  EXPECT_EQ(recordings[0].outcome, Outcome::kOk);
  EXPECT_THAT(recordings[0].processes[0].note(), HasSubstr("it profiles itself"));
  EXPECT_EQ(recordings[0].processes[0].events(), 3u) << "what there is of it is kept";
}

TEST_F(JoinAnswersTest, AServerWithoutRequestsSaysSo) {
  FrameworkAnswer idle = Of("worker 1", Role::kWorker, 0);
  idle.engine.emplace().set_iterations(0);
  auto recordings = Join(std::move(idle));
  EXPECT_EQ(recordings[0].outcome, Outcome::kNoHostEvents);
  EXPECT_THAT(recordings[0].message, HasSubstr("NoRequests: no request ran"));
  FrameworkAnswer busy = Of("worker 1", Role::kWorker, 5);
  busy.engine.emplace().set_iterations(7);
  busy.note = "CUPTI stays";
  recordings = Join(std::move(busy));
  EXPECT_EQ(recordings[0].outcome, Outcome::kOk);
  EXPECT_EQ(recordings[0].processes[0].engine().iterations(), 7u);
  EXPECT_THAT(recordings[0].processes[0].note(), StartsWith("7 iterations (0 with prefill)"));
  EXPECT_THAT(recordings[0].processes[0].note(), HasSubstr("; CUPTI stays"));
}

TEST_F(JoinAnswersTest, AnIdleWorkerIsAFaultAndCompanionsAreNotCounted) {
  auto recordings = Join(Of("worker 1", Role::kWorker, 0), Of("api 2", Role::kCompanion, 0));
  EXPECT_EQ(recordings[0].outcome, Outcome::kNoHostEvents);
  EXPECT_THAT(recordings[0].message, HasSubstr("worker 1"));
  EXPECT_EQ(recordings[0].message.find("processes were recorded"), std::string::npos);
  recordings = Join(Of("worker 1", Role::kWorker, 0), Of("worker 3", Role::kWorker, 2),
                    Of("api 2", Role::kCompanion, 0));
  EXPECT_THAT(recordings[0].message, StartsWith("1 of 2 processes were recorded as requested"));
}

// Programs that neither join a group nor tell steps: whether one works is seen by what it ran.
TEST_F(JoinAnswersTest, OfUnclearProcessesThoseThatRanSomethingAreTheWorkers) {
  auto recordings = Join(Of("server 1", Role::kUnclear, 0), Of("model 2", Role::kUnclear, 7));
  EXPECT_EQ(recordings[0].outcome, Outcome::kOk) << recordings[0].message;
  EXPECT_TRUE(IsLeftOut(recordings[0].processes[0]));
  recordings = Join(Of("server 1", Role::kUnclear, 0), Of("model 2", Role::kUnclear, 0));
  EXPECT_EQ(recordings[0].outcome, Outcome::kNoHostEvents) << "nobody ran anything";
  recordings =
      Join(Failed("server 1", Role::kUnclear, Outcome::kBusy), Of("model 2", Role::kUnclear, 7));
  EXPECT_EQ(recordings[0].outcome, Outcome::kBusy) << "it may be what was to be recorded";
}

TEST_F(JoinAnswersTest, AWorkerOfAnotherRankShowsToo) {
  const auto recordings =
      Join(Of("server 1", Role::kUnclear, 0), Of("rank 0", Role::kWorker, 0, RankOf(0, 0, 2)),
           Of("rank 1", Role::kWorker, 4, RankOf(1, 1, 2)));
  ASSERT_THAT(recordings, SizeIs(2));
  EXPECT_EQ(recordings[0].outcome, Outcome::kNoHostEvents);
  EXPECT_THAT(recordings[0].message, HasSubstr("rank 0"));
  EXPECT_TRUE(IsLeftOut(recordings[0].processes[0]));
  EXPECT_EQ(recordings[1].outcome, Outcome::kOk);
}

// An answer as gRPC receives it, in slices of `size` bytes.
grpc::ByteBuffer Received(std::string_view bytes, std::size_t size) {
  std::vector<grpc::Slice> slices;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(size, bytes.size())))
    slices.emplace_back(std::string(bytes.substr(0, size)));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string ProfileAnswer(std::string_view xspace) {
  tensorflow::ProfileResponse response;
  response.add_tool_data()->set_name("overview");
  response.set_empty_trace(true);
  response.set_xspace(std::string(xspace));
  return response.SerializeAsString();
}

TEST(TakeXSpace, FindsTheTraceHoweverTheAnswerIsCutIntoSlices) {
  std::string trace(5000, 'x');
  for (std::size_t i = 0; i < trace.size(); ++i) trace[i] = static_cast<char>(i * 7);
  const std::string answer = ProfileAnswer(trace);
  for (const std::size_t size : {1, 2, 3, 64, 4096, 100'000}) {
    grpc::ByteBuffer received = Received(answer, size);
    const auto xspace = TakeXSpace(received);
    ASSERT_TRUE(xspace.ok()) << size << " " << xspace.status();
    EXPECT_EQ(*xspace, trace) << size;
    EXPECT_EQ(received.Length(), 0u) << "the answer is still in memory";
  }
}

TEST(TakeXSpace, AnEmptyTraceIsNotTheSameAsNone) {
  grpc::ByteBuffer with = Received(ProfileAnswer(""), 64);
  EXPECT_EQ(*TakeXSpace(with), "");
  tensorflow::ProfileResponse response;
  response.set_empty_trace(true);
  grpc::ByteBuffer without = Received(response.SerializeAsString(), 64);
  EXPECT_EQ(*TakeXSpace(without), std::nullopt);
  grpc::ByteBuffer nothing = Received("", 64), never;
  EXPECT_EQ(*TakeXSpace(nothing), std::nullopt);
  EXPECT_EQ(*TakeXSpace(never), std::nullopt);
}

TEST(TakeXSpace, AnAnswerThatIsCutIsRefusedOrHasTheWholeTrace) {
  const std::string trace(300, 't'), answer = ProfileAnswer(trace);
  for (std::size_t length = 0; length < answer.size(); ++length) {
    grpc::ByteBuffer received = Received(std::string_view(answer).substr(0, length), 16);
    const auto xspace = TakeXSpace(received);
    if (xspace.ok()) {
      EXPECT_EQ(*xspace, std::nullopt) << length;
    }
  }
}

TEST(TakeXSpace, ALengthBeyondTheAnswerReservesNoMemory) {
  const std::string tag(1, static_cast<char>(8 << 3 | 2));
  for (const std::string length : {"\xff\xff\xff\xff\x07", "\xff\xff\xff\xff\x0f", "\x02"}) {
    grpc::ByteBuffer received = Received(tag + length + "a", 64);
    EXPECT_EQ(TakeXSpace(received).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace strobe::source
