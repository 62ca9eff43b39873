#include "collector/stall/judge_processes.h"

#include <gmock/gmock.h>

#include <csignal>

namespace strobe::stall {
namespace {

RankEvidence Ended(const char* exception) {
  RankEvidence one;
  one.state = ProcessState::kGone;
  one.has_groups = true;
  one.exception = exception;
  return one;
}

TEST(JudgeEnded, NamesTheOneThatDidNotLoseAnother) {
  JobEvidence evidence;
  EXPECT_FALSE(JudgeEnded(evidence, /*some_wait=*/false).has_value());
  for (int rank = 0; rank < 3; ++rank)
    evidence.ranks[rank] = Ended("RuntimeError: Connection closed by peer [10.0.0.7]:9103");
  evidence.ranks[1] = Ended("ValueError: bad batch");
  std::optional<Verdict> verdict = JudgeEnded(evidence, /*some_wait=*/false);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->kind, StallClass::kGone);
  EXPECT_EQ(verdict->confidence, Confidence::kFirm);
  ASSERT_EQ(verdict->culprits.size(), 1u);
  EXPECT_EQ(verdict->culprits[0].rank, 1);
  evidence.ranks[2] = Ended("");  // Two that explain nothing.
  verdict = JudgeEnded(evidence, /*some_wait=*/false);
  EXPECT_EQ(verdict->confidence, Confidence::kProbably);
  EXPECT_EQ(verdict->culprits.size(), 2u);
  evidence.ranks[2].signal = SIGTERM;  // torchrun ends those that are left.
  EXPECT_EQ(JudgeEnded(evidence, /*some_wait=*/false)->culprits.size(), 1u);
}

TEST(JudgeEnded, NamesNobodyWhereNoneLeftARecord) {
  JobEvidence evidence;
  for (int rank = 0; rank < 3; ++rank) {
    evidence.ranks[rank] = Ended("");
    evidence.ranks[rank].has_groups = false;
  }
  const std::optional<Verdict> verdict = JudgeEnded(evidence, /*some_wait=*/false);
  ASSERT_TRUE(verdict.has_value());
  EXPECT_TRUE(verdict->culprits.empty());
  EXPECT_FALSE(verdict->reason.empty());
}

// One was killed, and it has no process group of PyTorch whose record would hold its exception.
TEST(JudgeEnded, NamesTheOneThatAllOthersLost) {
  JobEvidence evidence;
  evidence.ranks[0] = Ended("");
  evidence.ranks[0].has_groups = false;
  evidence.ranks[1] =
      Ended("ValueError: UNKNOWN: Gloo all-reduce failed: Connection closed by peer");
  const std::optional<Verdict> verdict = JudgeEnded(evidence, /*some_wait=*/false);
  EXPECT_EQ(verdict->confidence, Confidence::kProbably);
  ASSERT_EQ(verdict->culprits.size(), 1u);
  EXPECT_EQ(verdict->culprits[0].rank, 0);
}

// NCCL's watchdog ends processes whose peers do not answer, by SIGABRT and without an exception.
TEST(JudgeEnded, IsNotSureOfOneThatItsLibraryMayHaveEnded) {
  JobEvidence evidence;
  evidence.ranks[0] = Ended("");
  evidence.ranks[1].state = ProcessState::kThere;
  evidence.ranks[1].stacks.emplace();
  EXPECT_EQ(JudgeEnded(evidence, /*some_wait=*/true)->confidence, Confidence::kFirm);
  evidence.ranks[0].may_abort = true;
  EXPECT_EQ(JudgeEnded(evidence, /*some_wait=*/true)->confidence, Confidence::kProbably);
  evidence.ranks[0].signal = SIGABRT;
  EXPECT_EQ(JudgeEnded(evidence, /*some_wait=*/true)->confidence, Confidence::kProbably);
  evidence.ranks[0].signal = SIGKILL;
  EXPECT_EQ(JudgeEnded(evidence, /*some_wait=*/true)->confidence, Confidence::kFirm);
}

// The first rank saves the model alone when all others are done.
TEST(JudgeEnded, IsNotSureWhereNobodyWaits) {
  JobEvidence evidence;
  evidence.ranks[0].state = ProcessState::kThere;
  evidence.ranks[0].stacks.emplace();
  evidence.ranks[1] = Ended("");
  const std::optional<Verdict> verdict = JudgeEnded(evidence, /*some_wait=*/false);
  EXPECT_EQ(verdict->confidence, Confidence::kProbably);
  EXPECT_FALSE(verdict->reason.empty());
}

// The job was started again, and one of its processes has not begun yet.
TEST(JudgeEnded, IsNotSureOfOneThatEndedBeforeOthersBegan) {
  for (const double began_ago_s : {20, 40}) {
    JobEvidence evidence;
    evidence.ranks[0] = Ended("");
    evidence.ranks[0].age_s = 30;
    evidence.ranks[1].state = ProcessState::kThere;
    evidence.ranks[1].age_s = began_ago_s;
    evidence.ranks[1].stacks.emplace();
    const std::optional<Verdict> verdict = JudgeEnded(evidence, /*some_wait=*/true);
    EXPECT_EQ(verdict->confidence, began_ago_s < 30 ? Confidence::kProbably : Confidence::kFirm);
    EXPECT_EQ(verdict->reason.empty(), began_ago_s > 30);
  }
}

TEST(TellsOfALostPeer, InTheWordsOfItsLibraries) {
  for (const char* words :
       {"RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:9103",
        "RuntimeError: Application timeout caused pair closure",
        "DistNetworkError: failed to recv, got 0 bytes. Connection was likely closed.",
        "DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cpu//0/1",
        "DistBackendError: NCCL communicator was aborted on rank 3."})
    EXPECT_TRUE(TellsOfALostPeer(words)) << words;
  EXPECT_FALSE(TellsOfALostPeer("ValueError: the batch has no labels"));
}

TEST(JudgeStopped, NamesTheStopped) {
  JobEvidence evidence;
  evidence.ranks[4].state = ProcessState::kThere;
  EXPECT_FALSE(JudgeStopped(evidence).has_value());
  evidence.ranks[5].state = ProcessState::kStopped;
  EXPECT_EQ(JudgeStopped(evidence)->culprits.at(0).rank, 5);
}

TEST(JudgeConnections, NamesTheEndOfMostPaths) {
  JobEvidence evidence;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string own = "10.0.0." + std::to_string(rank);
    for (int other = 0; other < 4; ++other) {
      if (other != rank)
        evidence.ranks[rank].links.push_back(
            {own, "10.0.0." + std::to_string(other), rank == 2 || other == 2});
    }
    evidence.ranks[rank].links.push_back({own, "10.9.9.9", false});
  }
  std::optional<Verdict> verdict = JudgeConnections(evidence, /*dark=*/{});
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->kind, StallClass::kNetwork);
  EXPECT_EQ(verdict->culprits.at(0).rank, 2);
  EXPECT_EQ(verdict->confidence, Confidence::kFirm);

  // The one that is cut off could not tell anything: its address is all that is known.
  evidence.ranks.erase(2);
  EXPECT_FALSE(JudgeConnections(evidence, /*dark=*/{}).has_value());
  verdict = JudgeConnections(evidence, /*dark=*/{2});
  EXPECT_TRUE(verdict->culprits.empty());
  EXPECT_THAT(verdict->reason, testing::HasSubstr("10.0.0.2"));

  // Its pod alone did not answer.
  evidence.silent = {"10.0.0.2", 1};
  verdict = JudgeConnections(evidence, /*dark=*/{2});
  EXPECT_EQ(verdict->culprits.at(0).rank, 2);
  EXPECT_EQ(verdict->confidence, Confidence::kProbably);
  // One of the two may be a process of another pod, which tells nothing.
  EXPECT_TRUE(JudgeConnections(evidence, /*dark=*/{2, 5})->culprits.empty());
  // One that told too little is elsewhere.
  EXPECT_TRUE(JudgeConnections(evidence, /*dark=*/{3})->culprits.empty());
  // Only one path had something to send.
  for (const int rank : {1, 3}) {
    for (TcpLink& link : evidence.ranks[rank].links) link.retransmits = false;
  }
  EXPECT_EQ(JudgeConnections(evidence, /*dark=*/{2})->culprits.at(0).rank, 2);
  evidence.silent = {"10.0.0.7", 1};
  EXPECT_TRUE(JudgeConnections(evidence, /*dark=*/{2})->culprits.empty());
}

TEST(JudgeConnections, LeavesOutOthersThanRanks) {
  JobEvidence evidence;
  evidence.ranks[0].links = {{"10.0.0.1", "10.9.9.9", true}};
  evidence.ranks[1].links = {{"10.0.0.2", "10.0.0.1", false}};
  EXPECT_FALSE(JudgeConnections(evidence, /*dark=*/{}).has_value());
}

}  // namespace
}  // namespace strobe::stall
