#include "collector/stall/judge_ras.h"

#include <gmock/gmock.h>

namespace strobe::stall {
namespace {

RasCommunicator Communicator(const std::vector<std::int64_t>& counts) {
  RasCommunicator made{.hash = "00000000000000ff", .size = static_cast<int>(counts.size())};
  for (std::size_t i = 0; i < counts.size(); ++i)
    made.ranks.push_back({.rank = static_cast<int>(i), .counts = {{"AllReduce", counts[i]}}});
  return made;
}

RasReport Report(const std::vector<std::int64_t>& counts) {
  return {.nccl_version = "2.30.7", .communicators = {Communicator(counts)}};
}

TEST(JudgeByRas, NamesTheOneThatStaysBehind) {
  JobEvidence evidence;
  evidence.ras = {Report({31, 31, 30, 31})};
  EXPECT_TRUE(JudgeByRas(evidence).culprits.empty());
  EXPECT_THAT(JudgeByRas(evidence).reason, testing::HasSubstr("ask RAS twice"));
  evidence.ras.push_back(evidence.ras[0]);
  const Verdict verdict = JudgeByRas(evidence);
  EXPECT_EQ(verdict.kind, StallClass::kHost);
  EXPECT_EQ(verdict.confidence, Confidence::kProbably);
  EXPECT_EQ(verdict.culprits.at(0).rank, 2);
}

TEST(JudgeByRas, NamesNobodyInAJobThatMovesOrInWhichAllAreEqual) {
  JobEvidence evidence;
  evidence.ras = {Report({31, 31, 30, 31}), Report({32, 32, 31, 32})};
  EXPECT_EQ(JudgeByRas(evidence).kind, StallClass::kProgressing);
  evidence.ras = {Report({31, 31}), Report({31, 31})};
  EXPECT_EQ(JudgeByRas(evidence).kind, StallClass::kUnknown);
  EXPECT_TRUE(JudgeByRas(evidence).culprits.empty());
}

TEST(JudgeByRas, TellsOfProcessesThatDoNotAnswer) {
  JobEvidence evidence;
  evidence.ras = {Report({31, 31, 31})};
  evidence.ras[0].communicators[0].size = 4;
  evidence.ras[0].communicators[0].missing = {{.rank = 3}};
  EXPECT_EQ(JudgeByRas(evidence).kind, StallClass::kSilent);
  EXPECT_EQ(JudgeByRas(evidence).culprits.at(0).rank, 3);
  evidence.ras[0].communicators[0].missing[0].dead = true;
  EXPECT_EQ(JudgeByRas(evidence).kind, StallClass::kGone);
  // A smaller communicator numbers its ranks in its own way.
  evidence.world = 16;
  EXPECT_TRUE(JudgeByRas(evidence).culprits.empty());
  EXPECT_EQ(JudgeByRas(evidence).confidence, Confidence::kCannotTell);
}

TEST(JudgeByRas, TakesManyRanksAndCommunicators) {
  std::vector<std::int64_t> counts(200'000, 30);
  counts[0] = 31;
  JobEvidence evidence;
  evidence.ras = {Report(counts)};
  for (int i = 0; i < 100'000; ++i)
    evidence.ras[0].communicators.push_back({.hash = std::to_string(i), .size = 2});
  const std::string reason = JudgeByRas(evidence).reason;
  EXPECT_THAT(reason, testing::HasSubstr("rank 3 of communicator 00000000000000ff (200000 ranks); "
                                         "others launched less"));
}

TEST(RasAgrees, ByTheRanksNumberInItsGroup) {
  const Collective collective{.op = "all_reduce", .ranks = {4, 5, 6, 7}};
  EXPECT_TRUE(RasAgrees({Report({31, 31, 30, 31})}, 6, collective));
  EXPECT_FALSE(RasAgrees({Report({31, 31, 30, 31})}, 5, collective));
  EXPECT_FALSE(RasAgrees({Report({31, 30})}, 5, collective));
  EXPECT_FALSE(RasAgrees({}, 6, collective));
}

}  // namespace
}  // namespace strobe::stall
