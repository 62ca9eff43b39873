#include "collector/stall/judge.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "collector/stall/evidence_files.h"
#include "common/base/strings.h"
#include "tests/fakes/hang_cases.h"

namespace strobe::stall {
namespace {

JobEvidence EvidenceOf(const HangCase& files) {
  JobEvidence evidence;
  for (const auto& [name, bytes] : files)
    EXPECT_TRUE(AddEvidence(name, bytes, evidence).ok()) << name;
  return evidence;
}

std::vector<int> Named(const Verdict& verdict) {
  std::vector<int> ranks;
  for (const Culprit& culprit : verdict.culprits) ranks.push_back(culprit.rank);
  return ranks;
}

// A pause of six seconds that is looked at after three; nothing tells it from a hang.
constexpr char kPause[] = "w4_slow3";

// Faulty ranks of NVIDIA's cases.
const std::map<std::string, std::vector<int>> kNvrx = {
    {"lock_gil_1st", {9, 14}}, {"gpu_error_1st", {12, 14}}, {"gpu_error_2nd", {9, 14}}};

TEST(JudgeStall, IsRightInAllCases) {
  for (const auto& [name, files] : UnpackHangCases("cases.tar.gz")) {
    SCOPED_TRACE(name);
    const auto answer = nlohmann::json::parse(files.at("answer.json"));
    const Verdict verdict = JudgeStall(EvidenceOf(files));
    if (name == kPause) {
      EXPECT_EQ(verdict.kind, StallClass::kHost);
      continue;
    }
    EXPECT_EQ(NameOf(verdict.kind), answer["class"].get<std::string>());
    EXPECT_EQ(Named(verdict), answer["ranks"].get<std::vector<int>>());
    EXPECT_TRUE(verdict.without_evidence.empty());
    for (const auto& [rank, collective] : answer["blocked_on"].items()) {
      if (verdict.kind == StallClass::kNetwork) continue;
      const auto culprit = std::find_if(
          verdict.culprits.begin(), verdict.culprits.end(),
          [&, number = std::stoi(rank)](const Culprit& one) { return one.rank == number; });
      ASSERT_NE(culprit, verdict.culprits.end());
      ASSERT_TRUE(culprit->blocked_on.has_value());
      EXPECT_EQ(culprit->blocked_on->desc, collective["group"].get<std::string>());
      EXPECT_EQ(culprit->blocked_on->seq, collective["seq"].get<int>());
      EXPECT_EQ("gloo:" + culprit->blocked_on->op, collective["op"].get<std::string>());
      EXPECT_EQ(culprit->blocked_on->first_waiter, collective["first_waiter"].get<int>());
    }
  }
}

TEST(JudgeStall, IsFirmWhereTheCulpritIsOnTheHost) {
  const auto cases = UnpackHangCases("cases.tar.gz");
  for (const char* name :
       {"w4_sleep", "w4_gil", "w4_spin", "w4_lock", "w4_io", "w4_loader", "w4_raise_caught",
        "w4_midsleep", "w4_async", "w4_save", "w4_p2p", "w4_twofaults", "v1_midsleep", "v3_sleep",
        "w4_sigstop", "w4_kill", "net_netcut_down_0"}) {
    const Verdict verdict = JudgeStall(EvidenceOf(cases.at(name)));
    EXPECT_EQ(verdict.confidence, Confidence::kFirm) << name;
  }
}

TEST(JudgeStall, FindsTheRanksOfNvidiasCases) {
  const auto cases = UnpackHangCases("nvrx.tar.gz");
  for (const auto& [name, ranks] : kNvrx) {
    const Verdict verdict = JudgeStall(EvidenceOf(cases.at(name)));
    EXPECT_EQ(Named(verdict), ranks) << name;
    EXPECT_EQ(verdict.kind, name.starts_with("lock_gil") ? StallClass::kHost : StallClass::kDevice);
    EXPECT_EQ(verdict.confidence, Confidence::kProbably);  // One look only, and no stacks.
  }
}

TEST(JudgeStall, SaysWhereTheCulpritIs) {
  const auto cases = UnpackHangCases("cases.tar.gz");
  const Verdict gil = JudgeStall(EvidenceOf(cases.at("w4_gil")));
  EXPECT_EQ(gil.culprits.at(0).line, "job.py:39 in train.<locals>.culprit_gil");
  EXPECT_TRUE(gil.culprits.at(0).keeps_gil);
  EXPECT_EQ(gil.waiters, (std::vector<int>{0, 1, 3}));
  const Verdict loader = JudgeStall(EvidenceOf(cases.at("w4_loader")));
  EXPECT_FALSE(loader.culprits.at(0).keeps_gil);
  EXPECT_THAT(loader.culprits.at(0).line, testing::StartsWith("job.py:"));
  EXPECT_THAT(loader.culprits.at(0).inside, testing::StartsWith("threading.py:"));
}

// What a rank had to tell may be lost in several ways.
void TakeAway(const std::string& what, int rank, JobEvidence& evidence) {
  RankEvidence& one = evidence.ranks.at(rank);
  if (what == "everything") {
    evidence.ranks.erase(rank);
  } else if (what == "all but its state") {
    RankEvidence left;
    left.state = one.state;
    left.exception = one.exception;
    left.signal = one.signal;
    one = left;
  } else if (what == "dumps") {
    one.flight.reset();
    one.flight_later.reset();
  } else if (what == "second dump") {
    one.flight_later.reset();
  } else if (what == "stacks") {
    one.stacks.reset();
    one.stacks_later.reset();
  } else if (what == "sockets") {
    one.links.clear();
  } else {
    one.groups.clear();
    one.has_groups = false;
  }
}

TEST(JudgeStall, NeverNamesAnInnocentFirmlyWhateverOneRankDoesNotTell) {
  std::map<std::string, HangCase> cases = UnpackHangCases("cases.tar.gz");
  std::map<std::string, std::vector<int>> truth = kNvrx;
  for (const auto& [name, files] : cases)
    truth[name] = nlohmann::json::parse(files.at("answer.json"))["ranks"].get<std::vector<int>>();
  cases.merge(UnpackHangCases("nvrx.tar.gz"));
  cases.erase(kPause);
  int verdicts = 0, innocents_suspected = 0;
  for (const auto& [name, files] : cases) {
    const JobEvidence whole = EvidenceOf(files);
    for (const auto& [rank, evidence] : whole.ranks) {
      for (const char* what : {"everything", "all but its state", "dumps", "second dump", "stacks",
                               "sockets", "groups"}) {
        JobEvidence less = whole;
        TakeAway(what, rank, less);
        const Verdict verdict = JudgeStall(less);
        ++verdicts;
        for (const int named : Named(verdict)) {
          const std::vector<int>& guilty = truth.at(name);
          if (std::find(guilty.begin(), guilty.end(), named) != guilty.end()) continue;
          ++innocents_suspected;
          EXPECT_NE(verdict.confidence, Confidence::kFirm)
              << name << " without " << what << " of rank " << rank << " names " << named;
        }
      }
    }
  }
  EXPECT_GT(verdicts, 1200);
  EXPECT_LT(innocents_suspected, verdicts / 100);
}

TEST(JudgeStall, WithoutTheCulpritsEvidenceNamesNobodyElse) {
  const auto cases = UnpackHangCases("cases.tar.gz");
  for (const char* name : {"w4_sleep", "w4_p2p", "w4_barrier", "w4_branch_skip", "w4_branch_other",
                           "w4_midsleep", "w4_newgroup", "v3_async"}) {
    JobEvidence evidence = EvidenceOf(cases.at(name));
    const int culprit = JudgeStall(evidence).culprits.at(0).rank;
    evidence.ranks.erase(culprit);
    const Verdict verdict = JudgeStall(evidence);
    EXPECT_EQ(verdict.kind, StallClass::kUnknown) << name;
    EXPECT_TRUE(verdict.culprits.empty()) << name;
    EXPECT_EQ(verdict.without_evidence, (std::vector<int>{culprit})) << name;
    EXPECT_FALSE(verdict.reason.empty()) << name;
  }
}

TEST(JudgeStall, AsksForEvidenceWhereThereIsNone) {
  EXPECT_THAT(JudgeStall({}).reason, testing::HasSubstr("no Flight Recorder's dump"));
  JobEvidence stacks;
  EXPECT_TRUE(
      AddEvidence("0.a.stacks", "Thread 1 (idle): \"MainThread\"\n    f (a.py:1)\n", stacks).ok());
  EXPECT_THAT(JudgeStall(stacks).reason, testing::HasSubstr("TORCH_FR_BUFFER_SIZE"));
}

}  // namespace
}  // namespace strobe::stall
