#include "operator/request/capture_queue.h"

#include <gmock/gmock.h>

#include <random>

namespace strobe::request {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

WallTime AtSecond(int second) { return WallTime{} + std::chrono::seconds(second); }

TEST(CaptureQueue, TwoCapturesOnOneWorkerNeverHaveTheirTurnAtOnce) {
  CaptureQueue turns;
  EXPECT_EQ(turns.Enter("first", AtSecond(1), {"a", "b"}).ahead, 0u);
  const CaptureQueue::Position place = turns.Enter("second", AtSecond(2), {"b", "c"});
  EXPECT_EQ(place.ahead, 1u);
  EXPECT_EQ(place.worker, "b");
  EXPECT_EQ(place.behind, "first");
  EXPECT_THAT(turns.Leave("first"), ElementsAre("second"));
  EXPECT_EQ(turns.Enter("second", AtSecond(2), {"b", "c"}).ahead, 0u);
}

TEST(CaptureQueue, CapturesOfOtherWorkersDoNotWait) {
  CaptureQueue turns;
  turns.Enter("first", AtSecond(1), {"a"});
  EXPECT_EQ(turns.Enter("second", AtSecond(2), {"b"}).ahead, 0u);
}

TEST(CaptureQueue, TheOldestIsFirstWhoeverEntersFirst) {
  CaptureQueue turns;
  turns.Enter("holder", AtSecond(0), {"a"});
  EXPECT_EQ(turns.Enter("young", AtSecond(9), {"a"}).ahead, 1u);
  EXPECT_EQ(turns.Enter("old", AtSecond(3), {"a"}).ahead, 1u);
  EXPECT_EQ(turns.Enter("young", AtSecond(9), {"a"}).ahead, 2u);
  EXPECT_THAT(turns.Leave("holder"), ElementsAre("old"));
}

TEST(CaptureQueue, WhoWaitsForTwoWorkersIsNotOvertakenOnTheFreeOne) {
  CaptureQueue turns;
  turns.Enter("holder", AtSecond(0), {"a"});
  turns.Enter("wide", AtSecond(1), {"a", "b"});
  EXPECT_EQ(turns.Enter("narrow", AtSecond(2), {"b"}).behind, "wide");
  EXPECT_THAT(turns.Leave("holder"), ElementsAre("wide"));
}

TEST(CaptureQueue, WhoRecordsAlreadyHasItsTurn) {
  CaptureQueue turns;
  turns.Hold("found", {"a"});
  EXPECT_EQ(turns.Enter("later", AtSecond(1), {"a"}).ahead, 1u);
  EXPECT_EQ(turns.Enter("found", AtSecond(5), {"a"}).ahead, 0u) << "it keeps its turn";
  EXPECT_EQ(turns.waiting(), 1u);
}

TEST(CaptureQueue, WhoeverLeavesFreesOnlyThoseWhoNowAreFirst) {
  CaptureQueue turns;
  turns.Enter("x", AtSecond(0), {"a"});
  turns.Enter("y", AtSecond(0), {"b"});
  turns.Enter("both", AtSecond(1), {"a", "b"});
  EXPECT_THAT(turns.Leave("x"), IsEmpty()) << "b is still held";
  EXPECT_THAT(turns.Leave("y"), ElementsAre("both"));
  EXPECT_THAT(turns.Leave("nobody"), IsEmpty());
}

// In any order of arrivals and departures, no worker is held by two captures at once, and each
// capture that entered gets a turn eventually.
TEST(CaptureQueue, EverybodyHasATurnAndNobodyTwoOnOneWorker) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    CaptureQueue turns;
    std::map<std::string, std::set<std::string>> waits, holds;
    for (int i = 0; i < 40; ++i) {
      std::set<std::string> workers;
      for (int w = 0; w < 6; ++w) {
        if (random() % 3 == 0) workers.insert(std::to_string(w));
      }
      if (workers.empty()) workers.insert("0");
      waits.emplace("r" + std::to_string(i), workers);
    }
    const auto enter = [&](const std::string& key) {
      if (turns.Enter(key, AtSecond(key.back()), waits.at(key)).ahead > 0) return;
      for (const auto& [other, workers] : holds) {
        for (const std::string& worker : waits.at(key))
          ASSERT_FALSE(workers.contains(worker)) << other << " and " << key << " on " << worker;
      }
      holds.insert(waits.extract(key));
    };
    std::vector<std::string> keys;
    for (const auto& [key, workers] : waits) keys.push_back(key);
    std::shuffle(keys.begin(), keys.end(), random);
    for (const std::string& key : keys) enter(key);
    while (!holds.empty()) {
      const auto leaver = std::next(holds.begin(), static_cast<long>(random() % holds.size()));
      const std::string key = leaver->first;
      holds.erase(leaver);
      for (const std::string& next : turns.Leave(key)) enter(next);
    }
    EXPECT_THAT(waits, IsEmpty());
  }
}

}  // namespace
}  // namespace strobe::request
