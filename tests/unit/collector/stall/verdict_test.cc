#include "collector/stall/verdict.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace strobe::stall {
namespace {

using testing::HasSubstr;

Verdict OneCulprit() {
  Verdict verdict{.kind = StallClass::kHost, .confidence = Confidence::kFirm};
  verdict.culprits = {{.rank = 9,
                       .label = "llm-1-x7k, process 1",
                       .blocked_on = Collective{.op = "all_to_all",
                                                .group = "3",
                                                .desc = "EP",
                                                .ranks = {8, 9, 10, 11},
                                                .seq = 45265,
                                                .first_waiter = 8,
                                                .since_ns = 1795797220213538402,
                                                .usual_gap_ns = 900'000'000},
                       .line = "loader.py:88 in Loader.next",
                       .keeps_gil = true}};
  verdict.waiters = {8, 10, 11};
  verdict.looked_at = {
      .flight_records = 16, .stacks = 16, .ras_reports = 1, .twice = true, .ras_agrees = true};
  return verdict;
}

TEST(VerdictText, SaysWhoAndWhere) {
  EXPECT_EQ(VerdictText(OneCulprit()),
            "rank 9 (llm-1-x7k, process 1) holds up 3 others: it never launched all_to_all #45265 "
            "of EP (ranks 8-11); it keeps Python's lock at loader.py:88 in Loader.next\n"
            "Firm: Flight Recorder of 16 ranks, stacks of 16, each seen twice, RAS agrees.\n"
            "Rank 8 has waited in all_to_all #45265 since 2026-11-27 16:33:40 UTC; before, there "
            "was one every 900ms.\n");
}

TEST(VerdictText, NamesEachOfSeveral) {
  Verdict verdict = OneCulprit();
  verdict.culprits.push_back({.rank = 10, .line = "a.py:1 in f", .inside = "queue.py:140 in get"});
  verdict.looked_at.twice = false;
  verdict.confidence = Confidence::kProbably;
  verdict.without_evidence = {1};
  const std::string text = VerdictText(verdict);
  EXPECT_THAT(text, HasSubstr("ranks 9, 10 hold up 3 others:\n  rank 9 (llm-1-x7k, process 1) "
                              "never launched all_to_all"));
  EXPECT_THAT(text, HasSubstr("\n  rank 10 never launched what the others wait for; its main "
                              "thread is at a.py:1 in f, inside queue.py:140 in get\n"));
  EXPECT_THAT(text, HasSubstr("\nProbably: "));
  EXPECT_THAT(text, HasSubstr("only if the job stands still"));
  EXPECT_THAT(text, HasSubstr("Without evidence: rank 1.\n"));
}

TEST(VerdictText, SaysWhyNobodyIsNamed) {
  Verdict verdict;
  verdict.reason = "there is nothing";
  EXPECT_EQ(VerdictText(verdict), "nobody is named: there is nothing\nCannot tell: no evidence.\n");
  verdict.kind = StallClass::kProgressing;
  EXPECT_THAT(VerdictText(verdict), HasSubstr("the job moves, and nobody holds it up"));
}

TEST(VerdictText, CountsTheStatesThatDecided) {
  Verdict verdict{.kind = StallClass::kGone, .confidence = Confidence::kFirm};
  verdict.culprits = {{.rank = 2}};
  verdict.looked_at.states = 4;
  EXPECT_EQ(VerdictText(verdict),
            "rank 2 has ended, and not because it lost another\n"
            "Firm: states of 4 processes.\n");
}

TEST(VerdictText, HasWordsForEachClass) {
  for (const StallClass kind :
       {StallClass::kHost, StallClass::kDevice, StallClass::kSilent, StallClass::kGone,
        StallClass::kMismatch, StallClass::kOtherBranch, StallClass::kNetwork}) {
    Verdict verdict = OneCulprit();
    verdict.kind = kind;
    EXPECT_THAT(VerdictText(verdict), testing::StartsWith("rank 9 (llm-1-x7k, process 1) holds up "
                                                          "3 others: it "));
    EXPECT_NE(NameOf(kind), "unknown");
  }
}

TEST(VerdictJson, HasTheSame) {
  const auto json = nlohmann::json::parse(VerdictJson(OneCulprit(), 2));
  EXPECT_EQ(json["class"], "host");
  EXPECT_EQ(json["confidence"], "firm");
  EXPECT_EQ(json["ranks"], nlohmann::json::array({9}));
  EXPECT_EQ(json["culprits"][0]["blockedOn"]["number"], 45265);
  EXPECT_EQ(json["culprits"][0]["line"], "loader.py:88 in Loader.next");
  EXPECT_EQ(json["waiters"].size(), 3u);
  EXPECT_EQ(json["evidence"]["rasAgrees"], true);
  EXPECT_EQ(json["text"], VerdictText(OneCulprit()));
}

TEST(VerdictJson, ListsTheFirstOfVeryManyMembers) {
  Verdict verdict = OneCulprit();
  verdict.culprits[0].blocked_on->ranks.resize(100'000);
  const auto json = nlohmann::json::parse(VerdictJson(verdict, 2))["culprits"][0]["blockedOn"];
  EXPECT_EQ(json["ranks"].size(), 1024u);
  EXPECT_EQ(json["members"], 100'000);
}

TEST(RanksText, PutsNeighboursTogether) {
  EXPECT_EQ(RanksText({}), "");
  EXPECT_EQ(RanksText({3}), "3");
  EXPECT_EQ(RanksText({0, 1}), "0, 1");
  EXPECT_EQ(RanksText({0, 1, 2, 5, 7, 8, 9}), "0-2, 5, 7-9");
}

}  // namespace
}  // namespace strobe::stall
