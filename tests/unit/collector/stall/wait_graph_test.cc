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

}  // namespace
}  // namespace strobe::stall
