#include "viewer/answers/comparison.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "tests/unit/viewer/made_run.h"
#include "tests/unit/viewer/two_workers.h"

namespace strobe::viewer {
namespace {

TEST(CompareSteps, TracesAreReadOnceAndAFailureIsNotKept) {
  LoadedRun run = MadeRun(TwoWorkers());
  auto& content = run.workers.at(0).files->trace.content;
  auto whole = std::exchange(content, std::make_unique<const std::string>("\xff"));
  EXPECT_FALSE(CompareSteps(run).ok());
  std::swap(content, whole);
  const absl::StatusOr<std::string> first = CompareSteps(run);
  ASSERT_TRUE(first.ok()) << first.status();
  std::swap(content, whole);
  const absl::StatusOr<std::string> again = CompareSteps(run);
  ASSERT_TRUE(again.ok()) << "a trace was read again: " << again.status();
  EXPECT_EQ(*again, *first);
  std::swap(content, whole);  // The run refers to these bytes.
}

// The second worker takes longer for each step, so that the workers are the further apart the
// higher a step's number is.
TEST(CompareSteps, OfManyTheLongestAreListedAndAllAreCounted) {
  const LoadedRun run = MadeRun(TwoWorkers(1500));
  const absl::StatusOr<std::string> answer = CompareSteps(run);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto compared = nlohmann::json::parse(*answer);
  EXPECT_EQ(compared["count"], 1500);
  const auto& steps = compared["steps"];
  ASSERT_EQ(steps.size(), kMaxComparedSteps);
  EXPECT_EQ(steps.front()["number"], 500);
  EXPECT_EQ(steps.back()["number"], 1499);
  constexpr std::int64_t kMs = 1'000'000'000;
  EXPECT_EQ(compared["times"]["leastPs"], 39 * kMs);
  EXPECT_EQ(compared["times"]["mostPs"], 69 * kMs);
  EXPECT_EQ(compared["times"]["medianPs"], 69 * kMs) << "the first of the longer half";
}

TEST(FindComparedStep, FindsAlsoTheStepsThatAreNotListed) {
  const LoadedRun run = MadeRun(TwoWorkers(1500));
  const auto step = [&run](std::int64_t number) {
    return nlohmann::json::parse(*FindComparedStep(run, number))["step"];
  };
  EXPECT_EQ(step(3)["number"], 3);
  EXPECT_EQ(step(3)["workers"].size(), 2u);
  EXPECT_EQ(step(1499)["number"], 1499);
  EXPECT_EQ(step(1500), nullptr);
  EXPECT_EQ(step(-1), nullptr);
}

// The evaluation's steps are the longer ones, and take less time together.
TEST(FindComparedStep, IsOfTheLoopThatTakesMostOfTheTime) {
  constexpr std::int64_t kMs = 1'000'000'000;
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  for (std::int64_t i = 0; i < 20; ++i) {
    host.AddEvent(host.EventId("train"), i * 10 * kMs, 10 * kMs);
    host.AddEventStat(host.StatId("step_num"), i);
  }
  for (std::int64_t i = 0; i < 2; ++i) {
    host.AddEvent(host.EventId("eval"), (200 + i * 50) * kMs, 50 * kMs);
    host.AddEventStat(host.StatId("step_num"), i);
  }
  const LoadedRun run = MadeRun({host.Encode()});
  EXPECT_EQ(nlohmann::json::parse(*FindComparedStep(run, 1))["step"]["name"], "train");
}

TEST(CompareSteps, WithoutStepsThereAreNoTimes) {
  const LoadedRun run = MadeRun(TwoWorkers(0));
  EXPECT_EQ(*CompareSteps(run), R"({"count":0,"times":null,"steps":[]})");
}

}  // namespace
}  // namespace strobe::viewer
