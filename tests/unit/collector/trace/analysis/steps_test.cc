#include "collector/trace/analysis/steps.h"

#include <gmock/gmock.h>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"

namespace strobe::analysis {
namespace {

using testing::ElementsAre;
using testing::FieldsAre;

Step At(std::int64_t number, std::int64_t begin, std::int64_t end,
        std::string_view name = "train") {
  return {name, number, begin, end};
}

TEST(FindSteps, ReadsAnnotationsOfHostThreadsInPlace) {
  xplane::PlaneBuilder host(xplane::kHostPlane), gpu("/device:GPU:0");
  host.BeginLine(1, "main", 2);
  for (const std::int64_t number : {8, 7}) {
    host.AddEvent(host.EventId("train"), number * 100, 50);
    host.AddEventStat(host.StatId("step_num"), number);
    host.AddEventStat(host.StatId("_r"), std::int64_t{1});
  }
  host.AddEvent(host.EventId("load"), 0, 5);
  gpu.BeginLine(1, "stream", 0);
  gpu.AddEvent(gpu.EventId("train"), 0, 5);
  gpu.AddEventStat(gpu.StatId("step_num"), std::int64_t{9});
  const std::string trace = host.Encode() + gpu.Encode();
  const xplane::Space space = *xplane::Space::Read(trace);
  EXPECT_THAT(*FindSteps(space),
              ElementsAre(FieldsAre("train", 7, 2700, 2750), FieldsAre("train", 8, 2800, 2850)));
  EXPECT_EQ(FindSteps(space, 1)->size(), 1u);
}

TEST(LongestRun, EndsAtAGap) {
  const std::vector<Step> steps = {At(1, 0, 5),   At(2, 10, 15), At(4, 30, 35),
                                   At(5, 40, 45), At(6, 50, 55), At(9, 80, 85)};
  EXPECT_THAT(*LongestRun(steps, "train"), FieldsAre("train", 4, 6, 30, 55));
  EXPECT_FALSE(LongestRun(steps, "eval"));
}

TEST(LongestRun, LooksOnlyAtTheWantedNumbers) {
  const std::vector<Step> steps = {At(3, 20, 25), At(4, 30, 35), At(5, 40, 45), At(6, 50, 55)};
  EXPECT_THAT(*LongestRun(steps, "train", 0, 4, 5), FieldsAre("train", 4, 5, 30, 45));
  EXPECT_THAT(*LongestRun(steps, "train", 0, 6, 9), FieldsAre("train", 6, 6, 50, 55));
  EXPECT_FALSE(LongestRun(steps, "train", 0, 7, 9));
}

TEST(LongestRun, WantsAStepFromEachProcess) {
  const std::vector<Step> steps = {At(3, 20, 25), At(3, 21, 27), At(4, 30, 38), At(4, 31, 35),
                                   At(5, 40, 45)};
  EXPECT_THAT(*LongestRun(steps, "train"), FieldsAre("train", 3, 4, 20, 38));
  EXPECT_THAT(*LongestRun(steps, "train", 2), FieldsAre("train", 3, 4, 20, 38));
  EXPECT_FALSE(LongestRun(steps, "train", 3));
}

TEST(MainLoop, IsTheOneThatTakesMostOfTheTime) {
  EXPECT_EQ(MainLoop(std::vector<Step>{}), "");
  EXPECT_EQ(MainLoop(std::vector<Step>{At(1, 0, 5, "eval"), At(2, 5, 6, "eval"), At(1, 6, 20)}),
            "train");
}

}  // namespace
}  // namespace strobe::analysis
