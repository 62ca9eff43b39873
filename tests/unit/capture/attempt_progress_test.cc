#include "capture/attempt_progress.h"

#include <gmock/gmock.h>

#include "capture/attempt_state.h"

namespace strobe::capture {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

Member In(const std::string& name, MemberState state, Outcome outcome = Outcome::kUnknown,
          v1::CaptureState reported = v1::CAPTURE_STATE_UNSPECIFIED) {
  Member member;
  member.result.target.name = name;
  member.state = state;
  member.result.outcome = outcome;
  member.result.report.set_state(reported);
  return member;
}

TEST(StatesOf, TellsThoseThatFailedFirstAndThoseThatAreOkLast) {
  const std::vector<Member> members = {
      In("ok", MemberState::kEnded, Outcome::kOk),
      In("up", MemberState::kArmed, {}, v1::UPLOADING),
      In("reads", MemberState::kArmed, {}, v1::COLLECTING),
      In("rec", MemberState::kArmed, {}, v1::RECORDING),
      In("late", MemberState::kEnded, Outcome::kLateStart),
      In("armed", MemberState::kArmed, {}, v1::ARMED),
      In("adopted", MemberState::kArmed),
      In("asked", MemberState::kArming),
      In("ready", MemberState::kReady),
      In("silent", MemberState::kChecking),
      In("lost", MemberState::kEnded, Outcome::kWorkerLost),
  };
  EXPECT_THAT(
      StatesOf(members),
      ElementsAre(
          WorkersInState{"WorkerLost", 1, {"lost"}}, WorkersInState{"LateStart", 1, {"late"}},
          WorkersInState{"Waiting", 1, {"silent"}}, WorkersInState{"Ready", 1, {"ready"}},
          WorkersInState{"Arming", 1, {"asked"}}, WorkersInState{"Armed", 2, {"armed", "adopted"}},
          WorkersInState{"Recording", 1, {"rec"}}, WorkersInState{"Collecting", 1, {"reads"}},
          WorkersInState{"Uploading", 1, {"up"}}, WorkersInState{"Ok", 1, {"ok"}}));
  EXPECT_THAT(StatesOf({}), IsEmpty());
}

TEST(StatesOf, IsBoundedWhateverTheNumberOfWorkers) {
  std::vector<Member> members;
  for (int i = 0; i < 16'000; ++i) {
    const auto outcome = static_cast<Outcome>(i % static_cast<int>(AllOutcomes().size()));
    members.push_back(In("worker-" + std::to_string(i), MemberState::kEnded, outcome));
  }
  const std::vector<WorkersInState> states = StatesOf(members);
  ASSERT_THAT(states, SizeIs(AllOutcomes().size()));
  std::size_t workers = 0, names = 0;
  for (const WorkersInState& in : states) {
    EXPECT_GE(in.names.size(), 1u);
    EXPECT_LE(in.names.size(), kMaxNamesInState);
    workers += in.workers;
    names += in.names.size();
  }
  EXPECT_EQ(workers, 16'000u);
  EXPECT_LE(names, 64 + AllOutcomes().size());
}

}  // namespace
}  // namespace strobe::capture
