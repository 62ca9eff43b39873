#include "operator/objects/run_template.h"

#include <gmock/gmock.h>

#include "operator/base/names.h"

namespace strobe::objects {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

Json RunObject(const char* patch = "{}") {
  Json run = Json::parse(R"({
    "metadata": {"name": "llm-20241101-000000", "namespace": "ml", "creationTimestamp": "2024-11-01T00:00:00Z",
                 "labels": {"strobe.dev/schedule": "llm"}},
    "spec": {"target": {"pods": ["b", "a"], "workers": {"policy": "Sample", "count": 1, "turn": 3}},
             "logdir": "/logs", "duration": "5s"},
    "status": {"attempt": 2, "bytes": 700, "conditions": [{"type": "Succeeded", "status": "False", "reason": "Failed"}]}})");
  run.merge_patch(Json::parse(patch));
  return run;
}

TEST(ParseAutomaticRun, ReadsWhatBudgetsCount) {
  const std::optional<kube::CreatedRun> run = ParseAutomaticRun(RunObject());
  ASSERT_TRUE(run);
  EXPECT_EQ(run->job, "Pod/a,b");
  EXPECT_EQ(run->recorded, 10s) << "two attempts";
  const auto recorded = [](const char* patch) {
    return ParseAutomaticRun(RunObject(patch))->recorded;
  };
  EXPECT_EQ(recorded(R"({"status": {"recorded": "90s"}})"), 90s) << "steps take as long as they do";
  EXPECT_EQ(recorded(R"({"status": {"recorded": "90s", "conditions": null}})"), 95s)
      << "another attempt comes";
  EXPECT_EQ(recorded(R"({"spec": {"lookBack": "1m"}})"), 130s) << "what it looks back counts";
  EXPECT_EQ(recorded(R"({"status": {"recorded": "-5s"}})"), 10s) << "no duration";
  EXPECT_EQ(recorded(R"({"status": {"recorded": "9999h"}})"), 24h);
  EXPECT_EQ(recorded(R"({"status": {"recorded": 5}})"), 10s);
  EXPECT_EQ(run->bytes, 700u);
  EXPECT_EQ(FormatRfc3339(run->created), "2024-11-01T00:00:00Z");
  EXPECT_EQ(run->state, kube::RunState::kFailed);
  EXPECT_EQ(ParseAutomaticRun(RunObject(R"({"status": null})"))->recorded, 5s) << "it will record";
}

TEST(ParseAutomaticRun, KnowsWhoStartedIt) {
  EXPECT_TRUE(ParseAutomaticRun(RunObject(
      R"({"metadata": {"labels": {"strobe.dev/schedule": null, "strobe.dev/trigger": "t"}}})")));
  EXPECT_FALSE(ParseAutomaticRun(RunObject(R"({"metadata": {"labels": null}})")));
  EXPECT_FALSE(ParseAutomaticRun(RunObject(R"({"spec": {"preflightOnly": true}})")))
      << "it records nothing";
  for (const char* odd : {"{}", "[]", "null", R"({"metadata": 5})",
                          R"({"metadata": {"labels": {"strobe.dev/schedule": 5}}})"})
    EXPECT_FALSE(ParseAutomaticRun(Json::parse(odd))) << odd;
  // Whatever is in it otherwise, it does not throw.
  ParseAutomaticRun(RunObject(R"({"spec": 5, "status": "x"})"));
  ParseAutomaticRun(RunObject(R"({"spec": {"target": []}, "status": {"attempt": -7}})"));
}

TEST(KeepForBudgets, RunsLiveForADayAtLeast) {
  const auto kept = [](Json spec) {
    Json run = {{"spec", std::move(spec)}};
    KeepForBudgets(run);
    return run["spec"].value("ttlAfterFinished", "");
  };
  EXPECT_EQ(kept(Json::object()), "");
  EXPECT_EQ(kept({{"ttlAfterFinished", "1m"}}), "24h");
  EXPECT_EQ(kept({{"ttlAfterFinished", "24h"}}), "24h");
  EXPECT_EQ(kept({{"ttlAfterFinished", "25h"}}), "25h");
}

}  // namespace
}  // namespace strobe::objects
