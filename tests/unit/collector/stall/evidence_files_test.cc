#include "collector/stall/evidence_files.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"
#include "tests/fakes/hang_cases.h"

namespace strobe::stall {
namespace {

using testing::HasSubstr;

TEST(EvidenceFiles, FindsTheRankInAName) {
  const auto name = [](const char* text) {
    const EvidenceName parsed = ParseEvidenceName(text);
    return std::make_pair(parsed.rank, parsed.later);
  };
  EXPECT_EQ(name("0.a.fr"), std::make_pair(0, false));
  EXPECT_EQ(name("12.b.stacks"), std::make_pair(12, true));
  EXPECT_EQ(name("7"), std::make_pair(7, false));
  EXPECT_EQ(name("nccl_trace_rank_12"), std::make_pair(12, false));
  EXPECT_EQ(name("rank12.b.txt"), std::make_pair(12, true));
  EXPECT_EQ(name("comm_lib_trace_rank_3.json"), std::make_pair(3, false));
  EXPECT_EQ(name("2026_rank-4_of_8.txt"), std::make_pair(4, false));
  EXPECT_EQ(name("_dump_14"), std::make_pair(14, false));
  EXPECT_EQ(name("llm-1.stacks"), std::make_pair(1, false));
  EXPECT_EQ(name("py311-spy"), std::make_pair(311, false));
  EXPECT_EQ(name("99999999999.fr"), std::make_pair(-1, false));
  EXPECT_EQ(name("stacks.txt"), std::make_pair(-1, false));
  EXPECT_EQ(name(""), std::make_pair(-1, false));
}

TEST(EvidenceFiles, ReadsACase) {
  const auto cases = UnpackHangCases("cases.tar.gz");
  JobEvidence evidence;
  for (const auto& [name, bytes] : cases.at("w4_exit1"))
    EXPECT_TRUE(AddEvidence(name, bytes, evidence).ok()) << name;
  EXPECT_EQ(evidence.world, 4);
  ASSERT_EQ(evidence.ranks.size(), 4u);
  EXPECT_EQ(evidence.ranks.at(2).state, ProcessState::kGone);
  EXPECT_EQ(evidence.ranks.at(2).exception, "");
  EXPECT_EQ(evidence.ranks.at(2).signal, 0);
  EXPECT_THAT(evidence.ranks.at(1).exception, HasSubstr("Connection closed by peer"));
  EXPECT_TRUE(evidence.ranks.at(1).has_groups);
  ASSERT_FALSE(evidence.ranks.at(1).groups.empty());
  EXPECT_FALSE(evidence.ranks.at(1).may_abort) << "gloo";
  EXPECT_EQ(evidence.ranks.at(1).groups[1].desc, "TP");
  EXPECT_EQ(evidence.ranks.at(1).groups[1].ranks, (std::vector<int>{0, 1}));
  evidence = {};
  for (const auto& [name, bytes] : cases.at("net_netcut_down_0"))
    EXPECT_TRUE(AddEvidence(name, bytes, evidence).ok()) << name;
  EXPECT_TRUE(evidence.ranks.at(0).flight.has_value());
  EXPECT_TRUE(evidence.ranks.at(0).flight_later.has_value());
  EXPECT_TRUE(evidence.ranks.at(0).stacks_later.has_value());
  EXPECT_FALSE(evidence.ranks.at(0).links.empty());
}

TEST(EvidenceFiles, TakesASecondFileOfARankForItsSecondLook) {
  JobEvidence evidence;
  const char* const stacks = "Thread 1 (idle): \"MainThread\"\n    f (a.py:1)\n";
  EXPECT_TRUE(AddEvidence("rank_3.txt", stacks, evidence).ok());
  EXPECT_FALSE(evidence.ranks.at(3).stacks_later.has_value());
  EXPECT_TRUE(AddEvidence("rank_3.txt", stacks, evidence).ok());
  EXPECT_TRUE(evidence.ranks.at(3).stacks_later.has_value());
  EXPECT_THAT(MessageOf(AddEvidence("rank_3.txt", stacks, evidence)), HasSubstr("third look"));
  EXPECT_THAT(MessageOf(AddEvidence("stacks.txt", stacks, evidence)), HasSubstr("no rank"));
}

// Without a backend, PyTorch takes NCCL where it can.
TEST(EvidenceFiles, TellsWhoseLibraryMayEndAProcess) {
  JobEvidence evidence;
  for (const char* backend : {"nccl", "undefined", "cpu:gloo,cuda:nccl"}) {
    evidence.ranks.clear();
    const std::string groups =
        StrCat(R"([{"name": "0", "desc": "", "ranks": [0], "backend": ")", backend, "\"}]");
    EXPECT_TRUE(AddEvidence("0.groups", groups, evidence).ok());
    EXPECT_TRUE(evidence.ranks.at(0).may_abort) << backend;
  }
}

TEST(EvidenceFiles, LeavesOutWhatIsNoEvidence) {
  JobEvidence evidence;
  for (const char* bytes : {"", "a log\n", "{\"call\":1}", "[1]", "\n"})
    EXPECT_TRUE(AddEvidence("rank_3", bytes, evidence).ok()) << bytes;
  EXPECT_TRUE(evidence.ranks.empty());
}

TEST(EvidenceFiles, TellsDamage) {
  JobEvidence evidence;
  EXPECT_THAT(MessageOf(AddEvidence("rank_3", "\x80\x02}", evidence)), HasSubstr("offset 3"));
  EXPECT_THAT(
      MessageOf(AddEvidence("3.pg", R"([{"name": "0", "desc": "TP", "ranks": 1}])", evidence)),
      HasSubstr("no ranks"));
}

}  // namespace
}  // namespace strobe::stall
