#include "capture/stall_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "collector/stall/evidence.h"
#include "common/base/strings.h"
#include "tests/fakes/hang_cases.h"

namespace strobe::capture {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class StallReportTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { cases_ = UnpackHangCases("cases.tar.gz"); }
  static void TearDownTestSuite() { cases_.clear(); }

  // The case, as the sidecars of four pods tell it, each of one rank.
  static JobEvidenceOrder OrderOf(const std::string& name) {
    JobEvidenceOrder order{.capture_id = "uid-1", .run = "run"};
    for (int rank = 0; rank < 4; ++rank) {
      WorkerEvidence& worker = order.workers.emplace_back();
      worker.name = worker.file = worker.pod = StrCat("llm-", rank);
      worker.node = StrCat("node-", rank);
      worker.rank = rank;
      for (const auto& [file, bytes] : cases_.at(name)) {
        if (!file.starts_with(StrCat(rank, "."))) continue;
        worker.files.emplace_back().set_name(file);
        worker.files.back().set_content(bytes);
      }
    }
    return order;
  }

  static std::map<std::string, HangCase> cases_;
};

std::map<std::string, HangCase> StallReportTest::cases_;

TEST_F(StallReportTest, NamesTheRankThatHoldsUpTheJobWithItsPodAndNode) {
  JobEvidenceOrder order = OrderOf("w4_gil");
  const StallReport report = ReportStall(order);
  EXPECT_EQ(report.kind, "Host");
  EXPECT_EQ(report.confidence, "Firm");
  EXPECT_TRUE(report.stalled());
  ASSERT_THAT(report.culprits, SizeIs(1));
  EXPECT_EQ(report.culprits[0].rank, 2);
  EXPECT_EQ(report.culprits[0].pod, "llm-2");
  EXPECT_EQ(report.culprits[0].node, "node-2");
  EXPECT_THAT(report.culprits[0].line, HasSubstr("culprit_gil"));
  EXPECT_THAT(report.text, HasSubstr("rank 2 (llm-2) holds up 3 others"));
  EXPECT_THAT(report.stacks, HasSubstr("culprit_gil"));
  const nlohmann::json json = nlohmann::json::parse(report.json);
  EXPECT_EQ(json["captureId"], "uid-1");
  EXPECT_EQ(json["verdict"]["class"], "host");
  EXPECT_EQ(json["verdict"]["ranks"], nlohmann::json::array({2}));
  EXPECT_EQ(json["workers"][2]["pod"], "llm-2");
  EXPECT_FALSE(json["stacks"].empty());
  EXPECT_FALSE(order.workers[0].files[0].content().empty()) << "the files are kept";
}

TEST_F(StallReportTest, AJobThatMovesIsNotStalled) {
  JobEvidenceOrder order = OrderOf("w4_slow");
  const StallReport report = ReportStall(order);
  EXPECT_EQ(report.kind, "Progressing");
  EXPECT_FALSE(report.stalled());
  EXPECT_THAT(report.culprits, IsEmpty());
}

TEST_F(StallReportTest, NothingIsFirmWithoutTheEvidenceOfOneWorker) {
  for (std::size_t missing = 0; missing < 4; ++missing) {
    JobEvidenceOrder order = OrderOf("w4_gil");
    order.workers[missing].files.clear();
    order.workers[missing].missing = "no answer";
    const StallReport report = ReportStall(order);
    EXPECT_NE(report.confidence, "Firm") << missing;
    EXPECT_THAT(report.text,
                HasSubstr(StrCat("Nothing came from llm-", missing, ": no answer.\n")));
    for (const StallCulprit& culprit : report.culprits) EXPECT_EQ(culprit.rank, 2) << missing;
  }
}

// What is sent to its address is not acknowledged by anybody, and its sidecar does not answer.
TEST_F(StallReportTest, NamesThePodThatNothingReaches) {
  JobEvidenceOrder order = OrderOf("net_netcut_down_0");
  const stall::JobEvidence whole = JoinEvidence(order);
  EXPECT_EQ(ReportStall(order).confidence, "Firm");
  const int cut = ReportStall(order).culprits.at(0).rank;
  WorkerEvidence& silent = order.workers[static_cast<std::size_t>(cut)];
  silent.address = StrCat(whole.ranks.at(cut).links.at(0).local, ":9470");
  silent.files.clear();
  silent.missing = "Unreachable";
  const StallReport report = ReportStall(order);
  EXPECT_EQ(report.kind, "Network");
  EXPECT_EQ(report.confidence, "Probably");
  ASSERT_THAT(report.culprits, SizeIs(1));
  EXPECT_EQ(report.culprits[0], (StallCulprit{cut, silent.pod, silent.node, ""}));
  const auto confidence = [&order](const auto& change) {
    JobEvidenceOrder changed = order;
    change(changed.workers);
    return ReportStall(changed).confidence;
  };
  const auto at = static_cast<std::size_t>(cut);
  using Workers = std::vector<WorkerEvidence>;
  EXPECT_EQ(confidence([at](Workers& all) { all[at].address = "10.200.0.1:9470"; }), "CannotTell");
  EXPECT_EQ(confidence([at](Workers& all) { all[(at + 1) % 4].processes = 2; }), "CannotTell")
      << "the other process of that pod may be the rank";
  EXPECT_EQ(confidence([at](Workers& all) { all.push_back(all[at]); }), "CannotTell");
}

TEST_F(StallReportTest, ProcessesThatKnowOnlyTheirLocalRankAreToldApartByTheirPods) {
  const auto local = [](JobEvidenceOrder order) {
    for (WorkerEvidence& worker : order.workers) {
      for (v1::EvidenceFile& file : worker.files) file.set_name(StrCat("0", file.name().substr(1)));
    }
    return order;
  };
  JobEvidenceOrder order = local(OrderOf("w4_gil"));
  const StallReport report = ReportStall(order);
  EXPECT_EQ(report.kind, "Host");
  ASSERT_THAT(report.culprits, SizeIs(1));
  EXPECT_EQ(report.culprits[0].pod, "llm-2");

  JobEvidenceOrder unknown = local(OrderOf("w4_gil"));
  for (WorkerEvidence& worker : unknown.workers) worker.rank = -1;
  const StallReport unsure = ReportStall(unknown);
  EXPECT_NE(unsure.confidence, "Firm");
  EXPECT_THAT(unknown.workers[1].notes, testing::Contains(HasSubstr("which llm-0 told of before")));
}

TEST_F(StallReportTest, EachPodTellsTheStatesOfItsOwnProcesses) {
  const auto states = [](JobEvidenceOrder order, bool local) {
    for (std::size_t i = 0; i < 4; ++i) {
      v1::EvidenceFile& file = order.workers[i].files.emplace_back();
      file.set_name("processes.json");
      file.set_content(StrCat("{\"world\": ", i == 3 ? 0 : 4, ", \"process_states\": {\"",
                              local ? 0 : i, "\": \"", i == 1 ? "gone" : "S",
                              "\"}, \"exceptions\": {}}"));
      if (i != 1 && !local) continue;
      std::erase_if(order.workers[i].files, [&](v1::EvidenceFile& one) {
        if (local && one.name() != "processes.json")
          one.set_name(StrCat("0", one.name().substr(1)));
        return i == 1 && one.name() != "processes.json";
      });
    }
    return order;
  };
  for (const bool local : {false, true}) {
    JobEvidenceOrder order = states(OrderOf("w4_sleep"), local);
    const stall::JobEvidence evidence = JoinEvidence(order);
    EXPECT_EQ(evidence.world, 4) << local;
    ASSERT_EQ(evidence.ranks.size(), 4u) << local;
    EXPECT_EQ(evidence.ranks.at(1).state, stall::ProcessState::kGone) << local;
    EXPECT_EQ(evidence.ranks.at(1).label, "llm-1") << local;
    EXPECT_EQ(evidence.ranks.at(2).state, stall::ProcessState::kThere) << local;
  }
}

TEST_F(StallReportTest, APodCannotSpeakForTheRankOfAnother) {
  JobEvidenceOrder order = OrderOf("w4_gil");
  v1::EvidenceFile& forged = order.workers[3].files.emplace_back();
  forged.set_name("2.a.stacks");
  forged.set_content("Thread 1 (idle): \"MainThread\"\n    f (a.py:1)\n");
  v1::EvidenceFile& states = order.workers[3].files.emplace_back();
  states.set_name("processes.json");
  states.set_content(R"({"process_states": {"1": "gone", "2": "gone", "3": "S"}})");
  // The pods' ranks would tell them apart, so they are left unknown here.
  for (WorkerEvidence& worker : order.workers) worker.rank = -1;
  const StallReport report = ReportStall(order);
  EXPECT_EQ(report.kind, "Host");
  ASSERT_THAT(report.culprits, SizeIs(1));
  EXPECT_THAT(report.culprits[0].line, HasSubstr("culprit_gil"));
  EXPECT_THAT(order.workers[3].notes, testing::Contains(HasSubstr("2.a.stacks: it is of rank 2")));
}

// A target with the pods of two jobs, of which the first one's rank 2 tells nothing.
TEST_F(StallReportTest, TwoJobsAreNotMixed) {
  JobEvidenceOrder order = OrderOf("w4_gil"), other = OrderOf("w4_sleep");
  order.workers[2].files.clear();
  for (WorkerEvidence& worker : other.workers) order.workers.push_back(std::move(worker));
  for (WorkerEvidence& worker : order.workers) worker.rank = -1;
  v1::EvidenceFile& world = order.workers[0].files.emplace_back();
  world.set_name("processes.json");
  world.set_content(R"({"world": 4, "process_states": {"0": "S"}})");
  const StallReport report = ReportStall(order);
  EXPECT_NE(report.confidence, "Firm") << report.text;
  EXPECT_THAT(report.text, HasSubstr("Several workers tell of ranks 0, 1, 3"));
}

// An elastic job was started again, and its ranks are in other pods.
TEST_F(StallReportTest, AProcessThatRunsComesBeforeOneThatEndedInAnotherPod) {
  JobEvidenceOrder order = OrderOf("w4_gil");
  v1::EvidenceFile& groups = order.workers[0].files.emplace_back();
  groups.set_name("3.groups");
  groups.set_content("[{\"name\": \"0\", \"desc\": \"default_pg\", \"ranks\": [0, 1, 2, 3]}]");
  v1::EvidenceFile& states = order.workers[0].files.emplace_back();
  states.set_name("processes.json");
  states.set_content(R"({"process_states": {"0": "S", "3": "gone"}})");
  const StallReport report = ReportStall(order);
  EXPECT_EQ(report.kind, "Host") << report.text;
  EXPECT_EQ(report.confidence, "Firm") << report.text;
  ASSERT_THAT(report.culprits, SizeIs(1));
  EXPECT_EQ(report.culprits[0].rank, 2);
}

// Two replicas of a service, each of which is a job of two ranks in one pod.
TEST_F(StallReportTest, ReplicasWaitForTheirOwnRanksOnly) {
  JobEvidenceOrder order;
  for (const int replica : {0, 1}) {
    WorkerEvidence& worker = order.workers.emplace_back();
    worker.name = worker.pod = StrCat("llm-", replica);
    worker.rank = replica;
    worker.processes = 2;
    for (const int rank : {0, 1}) {
      // In the first, nobody waits. In the second, which is further, rank 1 waits for rank 0.
      const bool waits = replica == 1 && rank == 1;
      const auto add = [&](const char* kind, const std::string& content) {
        worker.files.emplace_back().set_name(StrCat(rank, ".", kind));
        worker.files.back().set_content(content);
      };
      const auto entry = [](int seq, bool retired) {
        return StrCat("{\"process_group\": [\"0\", \"default_pg\"], \"collective_seq_id\": ", seq,
                      ", \"profiling_name\": \"gloo:all_reduce\", \"retired\": ",
                      retired ? "true" : "false", "}");
      };
      add("groups", R"([{"name": "0", "desc": "default_pg", "ranks": [0, 1]}])");
      add("a.fr",
          StrCat("{\"version\": \"2.10\", \"pg_config\": {}, \"pg_status\": {}, \"entries\": [",
                 entry(replica == 0 ? 10 : 499, true),
                 waits ? ", " + entry(500, false) : std::string(), "]}"));
    }
  }
  const StallReport report = ReportStall(order);
  ASSERT_THAT(report.culprits, SizeIs(1)) << report.text;
  EXPECT_EQ(report.culprits[0].pod, "llm-1") << report.text;
  EXPECT_EQ(report.culprits[0].rank, 2);
}

TEST_F(StallReportTest, LabelsTheRanksOfThousandsOfWorkers) {
  std::string states;
  for (int rank = 0; rank < 150'000; ++rank)
    states += StrCat(states.empty() ? "" : ",", "\"", rank, "\":\"S\"");
  JobEvidenceOrder order = OrderOf("w4_sleep");
  for (WorkerEvidence& worker : order.workers) worker.files.clear();
  order.workers[0].files.emplace_back().set_name("processes.json");
  order.workers[0].files[0].set_content(
      StrCat("{\"world\": 150000, \"process_states\": {", states, "}}"));
  order.workers.resize(4000, order.workers[1]);
  const stall::JobEvidence evidence = JoinEvidence(order);
  ASSERT_EQ(evidence.ranks.size(), 150'000u);
  EXPECT_EQ(evidence.ranks.at(149'999).label, "llm-0");
}

TEST_F(StallReportTest, FilesOfLargeJobsAreReadButNotKept) {
  JobEvidenceOrder order = OrderOf("w4_gil");
  v1::EvidenceFile& large = order.workers[1].files.emplace_back();
  large.set_name("log");
  large.set_content(std::string((std::size_t{64} << 20) + 1, 'x'));
  const StallReport report = ReportStall(order);
  EXPECT_EQ(report.kind, "Host");
  for (const WorkerEvidence& worker : order.workers) {
    for (const v1::EvidenceFile& file : worker.files) EXPECT_THAT(file.content(), IsEmpty());
    EXPECT_THAT(worker.notes, testing::Contains(HasSubstr("are not kept")));
  }
}

TEST_F(StallReportTest, WithoutAnyEvidenceNobodyIsNamed) {
  JobEvidenceOrder order;
  for (int i = 0; i < 6; ++i) {
    order.workers.emplace_back().name = StrCat("llm-", i);
    order.workers.back().missing = "gone";
  }
  const StallReport report = ReportStall(order);
  EXPECT_EQ(report.kind, "Unknown");
  EXPECT_EQ(report.confidence, "CannotTell");
  EXPECT_FALSE(report.stalled());
  EXPECT_THAT(report.text, HasSubstr("Nothing came from 2 more.\n"));
  EXPECT_THAT(report.text, Not(HasSubstr("llm-4")));
}

TEST_F(StallReportTest, JoinsWhatTheJudgeNeeds) {
  JobEvidenceOrder order = OrderOf("w4_gil");
  const stall::JobEvidence evidence = JoinEvidence(order);
  ASSERT_EQ(evidence.ranks.size(), 4u);
  EXPECT_EQ(evidence.ranks.at(3).label, "llm-3");
  EXPECT_TRUE(evidence.ranks.at(3).flight_later.has_value());
  EXPECT_EQ(evidence.world, 4);
}

}  // namespace
}  // namespace strobe::capture
