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
#include "tests/fakes/standing_job.h"

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

// The given cases in which somebody is at fault or nobody, with the ranks at fault.
struct KnownCase {
  std::string name{};
  JobEvidence evidence{};
  std::set<int> guilty{};
};

std::vector<KnownCase> KnownCases() {
  std::vector<KnownCase> known;
  for (const auto& [name, files] : UnpackHangCases("cases.tar.gz")) {
    if (name == kPause) continue;
    const auto guilty =
        nlohmann::json::parse(files.at("answer.json"))["ranks"].get<std::set<int>>();
    known.push_back({name, EvidenceOf(files), guilty});
  }
  return known;
}

// The innocent ranks that are named firmly, other than `except`.
std::set<int> FirmInnocents(const JobEvidence& evidence, const std::set<int>& guilty,
                            int except = -1) {
  std::set<int> innocents;
  const Verdict verdict = JudgeStall(evidence);
  if (verdict.confidence != Confidence::kFirm) return innocents;
  for (const int rank : Named(verdict)) {
    if (rank != except && !guilty.contains(rank)) innocents.insert(rank);
  }
  return innocents;
}

TEST(JudgeStall, NeverNamesAnInnocentFirmlyWhateverTwoRanksDoNotTell) {
  int verdicts = 0;
  for (const KnownCase& known : KnownCases()) {
    for (const auto& [first, evidence] : known.evidence.ranks) {
      for (const auto& [second, other] : known.evidence.ranks) {
        if (first == second) continue;
        for (const char* what : {"everything", "all but its state", "dumps", "stacks", "groups"}) {
          for (const char* also : {"everything", "dumps", "second dump", "stacks"}) {
            JobEvidence less = known.evidence;
            TakeAway(what, first, less);
            TakeAway(also, second, less);
            ++verdicts;
            EXPECT_THAT(FirmInnocents(less, known.guilty), testing::IsEmpty())
                << known.name << " without " << what << " of " << first << " and " << also << " of "
                << second;
          }
        }
      }
    }
  }
  EXPECT_GT(verdicts, 5000);
}

// A rank may tell another one's evidence, or that of another attempt. It may make itself guilty.
TEST(JudgeStall, NeverNamesAnInnocentFirmlyWhateverAnotherRankForges) {
  const std::vector<KnownCase> cases = KnownCases();
  int verdicts = 0;
  for (const KnownCase& known : cases) {
    for (const auto& [rank, evidence] : known.evidence.ranks) {
      const auto expect_none = [&, liar = rank](const RankEvidence& lie, const std::string& what) {
        JobEvidence forged = known.evidence;
        forged.ranks.at(liar) = lie;
        ++verdicts;
        EXPECT_THAT(FirmInnocents(forged, known.guilty, liar), testing::IsEmpty())
            << known.name << ": rank " << liar << " tells what " << what;
      };
      for (const auto& [other, truth] : known.evidence.ranks)
        expect_none(truth, StrCat("rank ", other, " does"));
      for (const KnownCase& another : cases) {
        const auto same = another.evidence.ranks.find(rank);
        if (same != another.evidence.ranks.end())
          expect_none(same->second, "it did in " + another.name);
      }
    }
  }
  EXPECT_GT(verdicts, 4000);
}

// All were looked at three seconds after the last collective began, and one so many collectives
// before, when its program computed something.
void LookEarlierAt(int rank, std::size_t collectives, JobEvidence& evidence) {
  std::int64_t last_ns = 0;
  for (const auto& [other, one] : evidence.ranks) {
    if (one.flight && !one.flight->entries.empty())
      last_ns = std::max(last_ns, one.flight->entries.back().created_ns);
  }
  for (auto& [other, one] : evidence.ranks) {
    for (std::optional<StackDump>* look : {&one.stacks, &one.stacks_later}) {
      if (*look) (*look)->looked_at_ns = last_ns + 3 * StandingJob::kSecond;
    }
  }
  RankEvidence& earlier = evidence.ranks.at(rank);
  if (!earlier.flight || !earlier.flight_later || !earlier.stacks) return;
  std::vector<FlightEntry>& entries = earlier.flight->entries;
  if (entries.size() <= collectives) return;
  entries.resize(entries.size() - collectives);
  for (FlightEntry& entry : entries) entry.finished = true;
  earlier.flight_later = earlier.flight;
  StackDump& stacks = *earlier.stacks;
  stacks.looked_at_ns = entries.back().created_ns + 1;
  stacks.threads.at(stacks.main).frames = {{"/app/job.py", 7, "forward"}};
  earlier.stacks_later = earlier.stacks;
}

TEST(JudgeStall, NeverNamesAnInnocentFirmlyThatWasSeenBeforeTheOthers) {
  int named = 0;
  for (const auto& [name, files] : UnpackHangCases("cases.tar.gz")) {
    if (name == kPause) continue;
    const auto guilty =
        nlohmann::json::parse(files.at("answer.json"))["ranks"].get<std::vector<int>>();
    const JobEvidence whole = EvidenceOf(files);
    for (const auto& [rank, evidence] : whole.ranks) {
      for (const std::size_t collectives : {1, 2, 4, 9}) {
        JobEvidence mixed = whole;
        LookEarlierAt(rank, collectives, mixed);
        const Verdict verdict = JudgeStall(mixed);
        for (const int one : Named(verdict)) {
          ++named;
          if (std::find(guilty.begin(), guilty.end(), one) == guilty.end()) {
            EXPECT_NE(verdict.confidence, Confidence::kFirm)
                << name << " with rank " << rank << " " << collectives << " earlier names " << one;
          }
        }
      }
    }
  }
  EXPECT_GT(named, 100);
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

// What is left of a name: "host [2] firm".
std::string Answer(const JobEvidence& evidence) {
  const Verdict verdict = JudgeStall(evidence);
  return StrCat(NameOf(verdict.kind), " ", testing::PrintToString(Named(verdict)), " ",
                NameOf(verdict.confidence));
}

constexpr char kSleeps[] = "hrtimer_nanosleep", kOnProcessor[] = "0";

// Three stages of two replicas. The first stage of the first replica loads no batch; those behind
// it wait for what it should send, and the other replica for the gradients of all of them.
StandingJob Pipeline(const std::string& backend) {
  StandingJob job(6, backend);
  for (const int stage : {0, 2, 4}) {
    const std::vector<int> replicas = {stage, stage + 1};
    job.DidEvery(replicas, 0.1, 20, 10).Waits(stage + 1, replicas, 10);
  }
  return job.InCode(0, "load", kSleeps);
}

TEST(JudgeStall, NamesTheHeadOfAChainOfReceivers) {
  StandingJob calls = Pipeline("gloo"), works = Pipeline("gloo"), nccl = Pipeline("nccl");
  for (const int rank : {2, 4}) {
    calls.InCall(rank, "recv");
    works.InCode(rank, "receive");  // Work.wait() is not seen.
    nccl.WaitsInTransfer(rank, {rank - 2, rank}, 10).InCode(rank, "step", kOnProcessor, "R");
  }
  EXPECT_EQ(Answer(calls.Evidence()), "host { 0 } firm");
  EXPECT_EQ(Answer(works.Evidence()), "host { 0 } firm");
  EXPECT_EQ(Answer(nccl.Evidence()), "host { 0 } firm");
  // It may wait for its device.
  EXPECT_EQ(Answer(nccl.InCode(0, "load").Evidence()), "host { 0 } probably");
}

// All but one wait in what that one does not launch.
StandingJob WaitFor(int late, double seconds, double usual_gap = 0.1,
                    const std::string& op = "all_reduce") {
  StandingJob job(4);
  job.DidEvery(job.All(), usual_gap, 40, seconds);
  for (const int rank : job.All()) {
    if (rank != late) job.Waits(rank, job.All(), seconds, op);
  }
  return job;
}

TEST(JudgeStall, NamesNobodyWhereALoaderTakesAsLongAsUsual) {
  EXPECT_EQ(Answer(WaitFor(2, 2, 5).InCode(2, "load", kSleeps).Evidence()),
            "progressing {} probably");
  EXPECT_EQ(Answer(WaitFor(2, 30, 5).InCode(2, "load", kSleeps).Evidence()), "host { 2 } firm");
}

// The first rank saves the model while the others wait in a barrier, for longer than any step.
TEST(JudgeStall, IsNotSureWhereAPauseAsLongWasThereBefore) {
  StandingJob first(4), second(4);
  second.DidEvery(second.All(), 0.1, 40, 100);
  for (StandingJob* job : {&first, &second}) {
    job->DidEvery(job->All(), 0.1, 40, 20);
    for (const int rank : {1, 2, 3}) job->Waits(rank, job->All(), 20, "barrier");
    job->Stands(0, {{"/lib/python3.13/shutil.py", 7, "copy"}, {"/app/train.py", 8, "save"}});
  }
  EXPECT_EQ(Answer(first.Evidence()), "host { 0 } firm");
  EXPECT_EQ(Answer(second.Evidence()), "host { 0 } probably");
  EXPECT_THAT(JudgeStall(second.Evidence()).reason, testing::HasSubstr("has waited for 20s"));
}

TEST(JudgeStall, IsNotSureOfOneThatRuns) {
  StandingJob computes = WaitFor(0, 20);
  computes.InCode(0, "evaluate", kOnProcessor, "R");
  EXPECT_EQ(Answer(computes.Evidence()), "host { 0 } probably");
  JobEvidence moves = WaitFor(0, 20).InCode(0, "evaluate").Evidence();
  moves.ranks.at(0).stacks_later->threads[0].frames[0].line = 99;
  EXPECT_EQ(Answer(moves), "host { 0 } probably");
}

TEST(JudgeStall, NamesTheOneUnderADebugger) {
  StandingJob stopped = WaitFor(1, 20);
  stopped.At(1) = {.state = ProcessState::kStopped};
  EXPECT_EQ(Answer(stopped.Evidence()), "silent { 1 } firm");
  StandingJob prompt = WaitFor(1, 20);
  prompt.Stands(1, {{"/lib/python3.13/pdb.py", 7, "Pdb.interaction"}, {"/app/train.py", 9, "f"}},
                "wait_woken");
  EXPECT_EQ(Answer(prompt.Evidence()), "host { 1 } firm");
}

// Somebody looks with a debugger at a rank that waits for another.
TEST(JudgeStall, IsNotSureOfOneThatIsStoppedWhereAnotherStands) {
  StandingJob job = WaitFor(1, 20).InCode(1, "load", kSleeps);
  job.At(0) = {.state = ProcessState::kStopped};
  EXPECT_EQ(Answer(job.Evidence()), "silent { 0 } probably");
  EXPECT_THAT(JudgeStall(job.Evidence()).reason, testing::HasSubstr("rank 1 may hold them up"));
}

// The workers of an inference server wait for what its first one broadcasts: the next request.
TEST(JudgeStall, IsNotSureOfAServerThatWaitsForRequests) {
  StandingJob job = WaitFor(0, 600, 0.1, "broadcast");
  job.Stands(0, {{"/lib/python3.13/selectors.py", 7, "EpollSelector.select"}}, "ep_poll");
  EXPECT_EQ(Answer(job.Evidence()), "host { 0 } probably");
  EXPECT_THAT(JudgeStall(job.Evidence()).reason, testing::HasSubstr("without requests"));
}

// JAX without NCCL: nothing records its collectives, in which a thread shows its caller's line
// only.
TEST(JudgeStall, WithoutRecordsNamesTheOneThatSleepsWhileTheOthersWait) {
  StandingJob job(3);
  for (const int rank : job.All()) {
    job.At(rank).flight.reset();
    job.InCode(rank, "train");
  }
  const auto answer = [](JobEvidence evidence, std::int64_t ran_ns) {
    for (auto& [rank, one] : evidence.ranks) {
      one.stacks->threads[0].ran_ns = 7;
      one.stacks_later->threads[0].ran_ns = 7 + ran_ns;
    }
    return Answer(evidence);
  };
  constexpr char kNobody[] = "unknown {} cannot tell";
  EXPECT_EQ(answer(job.Evidence(), 0), kNobody);
  job.InCode(1, "load", kSleeps);
  EXPECT_EQ(answer(job.Evidence(), 100'000), "host { 1 } probably");
  EXPECT_EQ(answer(job.Evidence(), 50'000'000), kNobody) << "it goes on, and sleeps in each step";
  EXPECT_EQ(Answer(job.Evidence()), kNobody) << "who knows";
  job.InCode(2, "train", kOnProcessor, "R");
  EXPECT_EQ(answer(job.Evidence(), 0), kNobody);
  for (const int rank : job.All()) job.InCode(rank, "poll", kSleeps);
  EXPECT_EQ(answer(job.Evidence(), 0), kNobody);
}

// A node has died, and its pods do not answer.
TEST(JudgeStall, NamesNobodyForANodeThatDied) {
  JobEvidence evidence = WaitFor(1, 20).Evidence();
  evidence.ranks.erase(1);
  EXPECT_EQ(Answer(evidence), "unknown {} cannot tell");
  EXPECT_EQ(JudgeStall(evidence).without_evidence, (std::vector<int>{1}));
  for (const int rank : {0, 2, 3})
    evidence.ranks.at(rank).links = {{StrCat("10.0.0.", rank), "10.0.0.1", true}};
  EXPECT_EQ(Answer(evidence), "network {} cannot tell");
  EXPECT_THAT(JudgeStall(evidence).reason, testing::HasSubstr("10.0.0.1"));
}

TEST(JudgeStall, ALossyPathIsNotTheReasonWhereARankSleeps) {
  JobEvidence evidence = WaitFor(1, 20).InCode(1, "load", kSleeps).Evidence();
  for (const int rank : {2, 3})
    evidence.ranks.at(rank).links = {{StrCat("10.0.0.", rank), StrCat("10.0.0.", 5 - rank), true}};
  EXPECT_EQ(Answer(evidence), "host { 1 } firm");
  evidence.ranks.at(1).stacks_later.reset();
  EXPECT_EQ(Answer(evidence), "network { 2, 3 } probably");
}

// A process that has just begun, in the place of one that others wait for.
TEST(JudgeStall, KnowsNothingOfARankThatBeganAnew) {
  StandingJob job = WaitFor(2, 20);
  FlightRecord& record = *job.At(2).flight;
  record.entries.clear();
  record.groups.clear();
  for (const bool joins : {false, true}) {
    joins ? job.InCall(2, "init_process_group") : job.InCode(2, "<module>");
    EXPECT_EQ(Answer(job.Evidence()), "unknown {} cannot tell");
    EXPECT_EQ(JudgeStall(job.Evidence()).without_evidence, (std::vector<int>{2}));
  }
  StandingJob first(4);  // Nobody has finished anything yet.
  for (const int rank : {0, 1, 3}) first.Waits(rank, first.All(), 20);
  EXPECT_EQ(Answer(first.InCode(2, "load").Evidence()), "host { 2 } firm");
}

TEST(JudgeStall, TensorsOfOneSizeAreNoMismatch) {
  StandingJob job(4);
  job.DidEvery(job.All(), 0.1, 20, 10).InCode(3, "load", kSleeps);
  job.Waits(0, job.All(), 10, "broadcast", "[[64]] Float");
  for (const int rank : {1, 2}) job.Waits(rank, job.All(), 10, "broadcast", "[[8, 8]] Float");
  EXPECT_EQ(Answer(job.Evidence()), "host { 3 } firm");
  StandingJob other(4);
  other.DidEvery(other.All(), 0.1, 20, 10);
  for (const int rank : other.All())
    other.Waits(rank, other.All(), 10, "broadcast",
                rank == 1 ? "[[8, 9]] Float" : "[[8, 8]] Float");
  EXPECT_EQ(Answer(other.Evidence()), "mismatch { 1 } firm");
}

TEST(JudgeStall, AJobThatDiesDoesNotMove) {
  StandingJob job(2);
  for (const int rank : job.All()) job.At(rank).flight.reset();
  JobEvidence evidence = job.Evidence();
  evidence.ranks.at(1).stacks_later->threads[0].frames[0].line = 99;
  EXPECT_EQ(Answer(evidence), "progressing {} probably");
  evidence.ranks.at(0) = {.has_groups = true, .state = ProcessState::kGone};
  EXPECT_THAT(Answer(evidence), testing::StartsWith("gone { 0 } "));
}

TEST(JudgeStall, IsTheSameWithClocksThatDiffer) {
  for (const int off : {0, 1, 2, 3}) {
    for (const std::int64_t by : {-3600, -1, 1, 3600}) {
      StandingJob job = WaitFor(2, 20).InCode(2, "load", kSleeps);
      for (FlightEntry& entry : job.At(off).flight->entries)
        entry.created_ns += by * StandingJob::kSecond;
      job.At(off).stacks->looked_at_ns += by * StandingJob::kSecond;
      EXPECT_THAT(Answer(job.Evidence()), testing::StartsWith("host { 2 } ")) << off << " " << by;
    }
  }
}

// What a rank shows after so many seconds of a job in which the third one takes 19 seconds for each
// step, and the others one.
void ShowAt(StandingJob& job, int rank, double now) {
  constexpr double kStep = 20;
  const double takes = rank == 2 ? 19 : 1;
  const int done = static_cast<int>(now / kStep);
  for (int step = 0; step < done; ++step) job.DidAlone(rank, job.All(), -(step * kStep + takes));
  if (now < done * kStep + takes)
    job.InCode(rank, "forward");
  else
    job.Waits(rank, job.All(), -(done * kStep + takes));
  job.At(rank).stacks->looked_at_ns += static_cast<std::int64_t>(now * StandingJob::kSecond);
}

TEST(JudgeStall, NeverNamesAnInnocentFirmlyByEvidenceOfAnotherMoment) {
  int firm = 0;
  for (const int delayed : {0, 1, 2, 3}) {
    for (int half_seconds = -78; half_seconds <= 78; ++half_seconds) {
      for (const double now : {40.5, 41.5, 50.0, 58.5, 59.5}) {
        StandingJob job(4);
        for (const int rank : job.All())
          ShowAt(job, rank, rank == delayed ? now + half_seconds / 2.0 : now);
        const Verdict verdict = JudgeStall(job.Evidence());
        const bool is_firm = verdict.confidence == Confidence::kFirm;
        firm += is_firm ? 1 : 0;
        if (is_firm) {
          EXPECT_EQ(Named(verdict), (std::vector<int>{2})) << delayed << " " << half_seconds;
        }
      }
    }
  }
  EXPECT_GT(firm, 100);
}

TEST(JudgeStall, AsksForEvidenceWhereThereIsNone) {
  EXPECT_THAT(JudgeStall({}).reason, testing::HasSubstr("no Flight Recorder's dump"));
  JobEvidence stacks;
  EXPECT_TRUE(
      AddEvidence("0.a.stacks", "Thread 1 (idle): \"MainThread\"\n    f (a.py:1)\n", stacks).ok());
  EXPECT_THAT(JudgeStall(stacks).reason, testing::HasSubstr("TORCH_FR_BUFFER_SIZE"));
}

// Regression: a job without collectives was asked for its Flight Recorder though it moved.
TEST(JudgeStall, SaysThatAJobWithoutCollectivesMoves) {
  JobEvidence evidence;
  const auto look = [&evidence](const char* name, int line) {
    const std::string text = StrCat("Thread 1 (idle): \"MainThread\"\n    f (a.py:", line, ")\n");
    EXPECT_TRUE(AddEvidence(name, text, evidence).ok());
  };
  look("0.a.stacks", 1);
  look("0.b.stacks", 1);
  evidence.ranks[0].flight = evidence.ranks[0].flight_later = FlightRecord{};
  EXPECT_EQ(JudgeStall(evidence).kind, StallClass::kUnknown);
  evidence.moves = {"step 8 of train began between the two looks"};
  const Verdict by_steps = JudgeStall(evidence);
  EXPECT_EQ(by_steps.kind, StallClass::kProgressing);
  EXPECT_THAT(VerdictText(by_steps),
              testing::StartsWith("the job moves, and nobody holds it up: step 8 of train"));
  evidence.moves.clear();
  evidence.ranks[0].stacks_later.reset();
  look("0.b.stacks", 2);
  EXPECT_EQ(JudgeStall(evidence).kind, StallClass::kProgressing) << "its recorder is empty";
}

// Others' steps may go on for a while.
TEST(JudgeStall, NamesWhoHoldsUpOthersAlthoughStepsGoOn) {
  JobEvidence evidence = EvidenceOf(UnpackHangCases("cases.tar.gz").at("w4_sleep"));
  const Verdict before = JudgeStall(evidence);
  evidence.moves = {"step 8 of train began between the two looks"};
  EXPECT_EQ(Named(JudgeStall(evidence)), Named(before));
  EXPECT_EQ(JudgeStall(evidence).kind, StallClass::kHost);
}

}  // namespace
}  // namespace strobe::stall
