#include "collector/stall/wait_graph.h"

#include <gmock/gmock.h>

namespace strobe::stall {
namespace {

// A record of one group's collectives; the last is open.
FlightRecord Waiting(int last, const char* op = "gloo:all_reduce") {
  FlightRecord record{.version = "2.10",
                      .groups = {{.name = "0", .desc = "world", .ranks = {0, 1, 2}}},
                      .texts = {"", op, "gloo:all_reduce"}};
  for (int seq = 1; seq <= last; ++seq)
    record.entries.push_back({.op = seq == last ? 1u : 2u, .seq = seq, .finished = seq < last});
  return record;
}

JobEvidence Job(const std::vector<FlightRecord>& records) {
  JobEvidence evidence;
  for (std::size_t i = 0; i < records.size(); ++i)
    evidence.ranks[static_cast<int>(i)].flight = records[i];
  return evidence;
}

TEST(WaitGraph, FindsWhoLacksWhatOthersWaitIn) {
  FlightRecord behind = Waiting(3);
  behind.entries.back().finished = true;
  const JobEvidence evidence = Job({Waiting(4), Waiting(4), behind});
  const JobView view = ViewOf(evidence);
  const WaitGraph graph = GraphOf(evidence, view);
  EXPECT_EQ(graph.waiting, (std::set<int>{0, 1}));
  ASSERT_EQ(graph.lacks.size(), 1u);
  EXPECT_EQ(graph.lacks.at(2).size(), 2u);
  EXPECT_EQ(graph.lacks.at(2)[0].waiter, 0);
  EXPECT_EQ(graph.lacks.at(2)[0].seq, 4);
  EXPECT_TRUE(graph.lags.empty());
  EXPECT_TRUE(graph.clashes.empty());
  EXPECT_FALSE(graph.waits_for_dark);
}

TEST(WaitGraph, FindsClashesAndLags) {
  FlightRecord done = Waiting(4);
  done.entries.back().finished = true;
  const JobEvidence evidence = Job({Waiting(4), Waiting(4, "gloo:barrier"), done});
  const WaitGraph graph = GraphOf(evidence, ViewOf(evidence));
  ASSERT_EQ(graph.clashes.size(), 1u);
  EXPECT_EQ(graph.clashes.begin()->second.size(), 2u);
  EXPECT_EQ(graph.lags.size(), 2u);
}

TEST(WaitGraph, DropsAWaitThatIsOverInTheSecondLook) {
  JobEvidence evidence = Job({Waiting(4), Waiting(4), Waiting(3)});
  evidence.ranks.at(0).flight_later = evidence.ranks.at(0).flight;
  evidence.ranks.at(0).flight_later->entries.back().finished = true;
  const WaitGraph graph = GraphOf(evidence, ViewOf(evidence));
  EXPECT_FALSE(graph.waiting.contains(0));
  EXPECT_TRUE(graph.waiting.contains(1));
}

TEST(WaitGraph, SeesThatItWaitsForARankWithoutEvidence) {
  const JobEvidence evidence = Job({Waiting(4), Waiting(4)});
  const JobView view = ViewOf(evidence);
  EXPECT_EQ(view.dark, (std::set<int>{2}));
  EXPECT_TRUE(GraphOf(evidence, view).waits_for_dark);
}

TEST(WaitGraph, TakesThousandsThatWaitForEachOther) {
  FlightRecord record = Waiting(1);
  for (int rank = 3; rank < 3000; ++rank) record.groups[0].ranks.push_back(rank);
  std::string shape = "[";
  for (int i = 0; i < 150; ++i) shape += "[64], ";
  record.texts.push_back(shape + "]");
  record.entries[0].shape = 3;
  const JobEvidence evidence = Job(std::vector<FlightRecord>(3000, record));
  const WaitGraph graph = GraphOf(evidence, ViewOf(evidence));
  EXPECT_EQ(graph.waiting.size(), 3000u);
  EXPECT_TRUE(graph.clashes.empty());
}

// A record with many groups, in each of which one call is open.
FlightRecord WaitingInMany(int groups, const char* op, int first = 0) {
  FlightRecord record{.version = "2.10", .texts = {"", op}};
  for (int group = first; group < first + groups; ++group) {
    record.groups.push_back({std::to_string(group), "TP" + std::to_string(group), {0, 1}});
    record.entries.push_back(
        {.group = static_cast<std::uint32_t>(group - first), .op = 1, .seq = 1});
  }
  return record;
}

TEST(WaitGraph, TakesClashesInManyGroups) {
  const JobEvidence evidence =
      Job({WaitingInMany(20'000, "gloo:barrier"), WaitingInMany(20'000, "gloo:all_reduce")});
  const JobView view = ViewOf(evidence);
  const WaitGraph graph = GraphOf(evidence, view);
  ASSERT_EQ(graph.clashes.size(), 20'000u);
  const Siblings siblings(evidence, view, graph);
  for (const auto& [key, launched] : graph.clashes)
    EXPECT_EQ(siblings.OpOf(view.groups[key.first].desc, key.second, launched), "");
}

TEST(WaitGraph, AsksTheSiblingsOfLargeGroups) {
  JobEvidence evidence;
  for (int rank = 0; rank < 1000; ++rank) {
    FlightRecord record = Waiting(1, rank < 250 ? "gloo:barrier" : "gloo:all_reduce");
    record.groups[0] = {.name = rank < 500 ? "a" : "b", .desc = "DP"};
    for (int member = 0; member < 500; ++member)
      record.groups[0].ranks.push_back(member + (rank < 500 ? 0 : 500));
    evidence.ranks[rank].flight = record;
  }
  const JobView view = ViewOf(evidence);
  const WaitGraph graph = GraphOf(evidence, view);
  ASSERT_EQ(graph.clashes.size(), 1u);
  EXPECT_EQ(Siblings(evidence, view, graph).OpOf("DP", 1, graph.clashes.begin()->second),
            "gloo:all_reduce");
}

TEST(WaitGraph, LooksForSkippersAmongManyGroups) {
  const JobEvidence evidence = Job(
      {WaitingInMany(20'000, "gloo:barrier"), WaitingInMany(20'000, "gloo:all_reduce", 20'000)});
  const JobView view = ViewOf(evidence);
  const WaitGraph graph = GraphOf(evidence, view);
  EXPECT_EQ(graph.lacks.at(0).size(), 20'000u);
  EXPECT_TRUE(SkippersOf(evidence, view, graph).empty());
}

}  // namespace
}  // namespace strobe::stall
