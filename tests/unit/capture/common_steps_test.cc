#include "capture/common_steps.h"

#include <gmock/gmock.h>

#include <vector>

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;

StepsOfWorker Has(std::int64_t first, std::int64_t last, Nanos began, Nanos offset = 0ms,
                  const std::string& loop = "train") {
  StepsOfWorker worker{.offset = offset, .error = 1ms};
  worker.steps.set_loop(loop);
  worker.steps.set_first(first);
  worker.steps.set_last(last);
  worker.steps.set_began_ns(ToUnixNanos(WallTime{1000s} + began + offset));
  return worker;
}

TEST(FindCommonSteps, AreThoseOfAll) {
  const auto common =
      FindCommonSteps(std::vector<StepsOfWorker>{Has(3, 9, 0ms), Has(5, 12, 0ms), Has(4, 8, 0ms)});
  ASSERT_TRUE(common);
  EXPECT_EQ(Describe(*common), "steps 5 to 8 of train");
  EXPECT_FALSE(common->spread) << "not all of them recorded that step 5 began";
}

TEST(FindCommonSteps, TheSpreadIsThatOfTheCorrectedBegins) {
  const auto common =
      FindCommonSteps(std::vector<StepsOfWorker>{Has(5, 6, 0ms), Has(5, 5, 7ms, 10s)});
  EXPECT_EQ(Describe(*common), "step 5 of train");
  EXPECT_EQ(common->spread->achieved, 7ms);
  EXPECT_EQ(common->spread->error, 2ms);
}

TEST(FindCommonSteps, ThereMayBeNone) {
  EXPECT_FALSE(FindCommonSteps({}));
  EXPECT_FALSE(FindCommonSteps(std::vector<StepsOfWorker>{Has(3, 4, 0ms), Has(5, 6, 0ms)}));
  EXPECT_FALSE(
      FindCommonSteps(std::vector<StepsOfWorker>{Has(3, 9, 0ms), Has(3, 9, 0ms, 0ms, "eval")}));
}

}  // namespace
}  // namespace strobe::capture
