#include "sidecar/stall/evidence_answer.h"

#include <gmock/gmock.h>

#include "collector/stall/evidence_files.h"

namespace strobe::stall {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t kSecond = 1'000'000'000, kAnswerNow = 100 * kSecond;

EvidenceProcess AnsweringProcess(std::uint64_t beat_ns) {
  EvidenceProcess process;
  process.pid = 7;
  process.world_size = 4;
  process.lives = true;
  process.has_stacks = true;
  process.beat_ns = beat_ns;
  process.answered = 5;
  return process;
}

TEST(EvidenceAnswer, LeavesOutWhatDoesNotFit) {
  EvidenceAnswer answer(10);
  answer.Add("0.groups", "123456");
  answer.Add("0.a.fr", "12345");
  answer.Add("1.a.fr", "1234");
  answer.Add("2.a.fr", "");
  const v1::ReadEvidenceResponse response = answer.Take(77);
  ASSERT_EQ(response.files_size(), 2);
  EXPECT_EQ(response.files(0).name(), "0.groups");
  EXPECT_EQ(response.files(1).name(), "1.a.fr");
  EXPECT_EQ(response.left_out_bytes(), 5u);
  EXPECT_EQ(response.looked_at_ns(), 77);
}

TEST(EvidenceAnswer, HasNotesThatAreText) {
  EvidenceAnswer answer(10);
  answer.Note("because \xff" + std::string(1000, 'x'));
  const v1::ReadEvidenceResponse response = answer.Take(1);
  EXPECT_TRUE(response.notes(0).starts_with("because \xef\xbf\xbdx"));
  EXPECT_LE(response.notes(0).size(), 300u);
}

TEST(EvidenceAnswer, HasFewNotesOfOneLine) {
  EvidenceAnswer answer(10);
  for (int i = 0; i < 100; ++i) answer.Note("a\nb");
  answer.Note("");
  const v1::ReadEvidenceResponse response = answer.Take(1);
  EXPECT_EQ(response.notes_size(), 64);
  EXPECT_EQ(response.notes(0), "a b");
}

// The witness is the reader of collector/stall.
TEST(ProcessStates, AreReadAgain) {
  std::map<int, EvidenceProcess> processes;
  processes[0] = AnsweringProcess(kAnswerNow);
  processes[1] = AnsweringProcess(kAnswerNow - 10 * kSecond);
  processes[2] = AnsweringProcess(1);
  processes[2].lives = false;
  processes[3] = AnsweringProcess(kAnswerNow);
  processes[3].has_ended = true;
  const std::map<int, std::string> exceptions = {
      {0, "{broken"},
      {1, ""},
      {2, R"({"unix_ns": 1, "lines": ["RuntimeError: Connection closed\u001b by peer"]})"}};
  JobEvidence evidence;
  const std::string text = ProcessStates(processes, exceptions, {"it moves"}, kAnswerNow);
  ASSERT_TRUE(AddEvidence("processes.json", text, evidence).ok()) << text;
  EXPECT_EQ(evidence.world, 4);
  ASSERT_EQ(evidence.ranks.size(), 4u) << text;
  EXPECT_EQ(evidence.ranks[0].state, ProcessState::kThere);
  EXPECT_EQ(evidence.ranks[1].state, ProcessState::kStopped);
  EXPECT_EQ(evidence.ranks[2].state, ProcessState::kGone);
  EXPECT_EQ(evidence.ranks[3].state, ProcessState::kGone) << "it only lingers";
  EXPECT_EQ(evidence.ranks[0].exception, "");
  EXPECT_EQ(evidence.ranks[2].exception, "RuntimeError: Connection closed  by peer");
  EXPECT_THAT(evidence.moves, ElementsAre("it moves"));
  EXPECT_EQ(ProcessStates({}, {}, {}, kAnswerNow), "");
}

v1::StepPace PaceAt(const std::string& process, std::int64_t number, std::int64_t began_s) {
  v1::StepPace pace;
  pace.set_loop("train\n");
  pace.set_process(process);
  pace.set_number(number);
  pace.set_began_ns(began_s * static_cast<std::int64_t>(kSecond));
  pace.set_period_ns(20 * static_cast<std::int64_t>(kSecond));
  return pace;
}

TEST(MovesBetween, TellsStepsThatBeganMeanwhileOrAreNotLate) {
  const WallTime now = FromUnixNanos(1000 * static_cast<std::int64_t>(kSecond));
  const std::vector<v1::StepPace> before = {PaceAt("a", 5, 900), PaceAt("b", 5, 995),
                                            PaceAt("c", 5, 900)};
  const std::vector<v1::StepPace> after = {PaceAt("a", 6, 900), PaceAt("b", 5, 995),
                                           PaceAt("c", 5, 900), PaceAt("d", 7, 900)};
  EXPECT_THAT(MovesBetween(before, after, now),
              ElementsAre("step 6 of train  began between the two looks",
                          "step 5 of train  began 5s ago, and steps take 20s"));
}

TEST(WhyLess, SaysWhatAProcessLacks) {
  EvidenceProcess process = AnsweringProcess(kAnswerNow);
  EXPECT_EQ(WhyLess(process, 5, kAnswerNow), "");
  EXPECT_THAT(WhyLess(process, 6, kAnswerNow), HasSubstr("not answered in time"));
  process.has_groups = true;
  process.flight = wire::FlightState::kRunning;
  EXPECT_THAT(WhyLess(process, 5, kAnswerNow), HasSubstr("has not come back"));
  process.flight = wire::FlightState::kWritten;
  EXPECT_EQ(WhyLess(process, 5, kAnswerNow), "");
  process.has_stacks = false;
  process.refusal = "this version of Python is not known";
  EXPECT_THAT(WhyLess(process, 5, kAnswerNow), HasSubstr(process.refusal));
  EXPECT_THAT(WhyLess(process, 5, kAnswerNow + 10 * kSecond), HasSubstr("as if it was stopped"));
  process.pid = 42;
  EXPECT_EQ(WhyLess(process, 5, kAnswerNow + 10 * kSecond),
            "process 42 could not be read: it has not run for 10s, as if it was stopped (SIGSTOP, "
            "a debugger) or frozen");
  process.local_rank = 1;
  EXPECT_THAT(WhyLess(process, 5, kAnswerNow), StartsWith("local rank 1 (process 42): "));
  process.rank = 9;
  EXPECT_THAT(WhyLess(process, 5, kAnswerNow), StartsWith("rank 9 (process 42): "));
  process.lives = false;
  EXPECT_EQ(WhyLess(process, 5, kAnswerNow), "") << "its state says it";
}

}  // namespace
}  // namespace strobe::stall
