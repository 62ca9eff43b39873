#include "cli/kube/capture_request.h"

#include <gmock/gmock.h>

namespace strobe::cluster {
namespace {

using RequestJson = nlohmann::ordered_json;
using testing::HasSubstr;

TEST(RequestOf, SetsOnlyWhatIsGiven) {
  const auto request = RequestOf({.target = {"job/llm"}}, nullptr);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->at("metadata"), RequestJson::parse(R"({"generateName": "llm-"})"));
  EXPECT_EQ(request->at("spec"),
            RequestJson::parse(R"({"target": {"jobRef": {"kind": "Job", "name": "llm"}}})"));
}

TEST(RequestOf, FlagsBecomeFields) {
  const auto request = RequestOf({.target = {"job/llm"},
                                  .name = "look",
                                  .at_step = "*100",
                                  .fields = {{"--duration", "5s"},
                                             {"--steps", "3"},
                                             {"--ranks", "0,7"},
                                             {"--min-workers", "90%"},
                                             {"--host-tracer-level", "Critical"}}},
                                 nullptr);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->at("metadata").dump(), R"({"name":"look"})");
  EXPECT_EQ(nlohmann::json(request->at("spec")), nlohmann::json::parse(R"({
    "target": {"jobRef": {"kind": "Job", "name": "llm"},
               "workers": {"policy": "Sample", "ranks": [0, 7]}},
    "duration": "5s", "steps": 3, "start": {"step": {"multipleOf": 100}},
    "minWorkers": "90%", "tracers": {"host": "Critical"}})"));
}

TEST(RequestOf, FlagsReplaceWhatTheFileSays) {
  const RequestJson file =
      RequestJson::parse(R"({"kind": "ProfileRequest", "metadata": {"name": "f"},
    "spec": {"target": {"selector": {}, "container": "c"}, "duration": "1s", "logdir": "/a"}})");
  const auto same = RequestOf({}, file);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(*same, file);
  const auto changed = RequestOf({.target = {"job/llm"}, .fields = {{"--duration", "2s"}}}, file);
  ASSERT_TRUE(changed.ok()) << changed.status();
  const RequestJson& spec = changed->at("spec");
  EXPECT_FALSE(spec["target"].contains("selector"));
  EXPECT_EQ(spec["target"]["container"], "c");
  EXPECT_EQ(spec["duration"], "2s");
  EXPECT_EQ(spec["logdir"], "/a");
  EXPECT_FALSE(RequestOf({}, RequestJson::parse(R"({"kind": "List"})")).ok());
}

TEST(RequestOf, NamesTheFlagThatIsWrong) {
  for (const auto& [flag, value] : {std::pair{"--ranks", "a"}, {"--steps", "many"}}) {
    const auto request = RequestOf({.target = {"job/a"}, .fields = {{flag, value}}}, nullptr);
    EXPECT_THAT(request.status().message(), HasSubstr(flag));
  }
  EXPECT_THAT(RequestOf({.target = {"job/a"}, .at_step = "soon"}, nullptr).status().message(),
              HasSubstr("--at-step"));
}

TEST(MakePreflight, HasANameOfItsOwnAndDeletesItself) {
  RequestJson request = *RequestOf({.target = {"job/a"}, .name = "look"}, nullptr);
  MakePreflight(request);
  EXPECT_EQ(request["metadata"].dump(), R"({"generateName":"check-look-"})");
  EXPECT_EQ(request["spec"]["preflightOnly"], true);
  EXPECT_EQ(request["spec"]["ttlAfterFinished"], "10m");
}

TEST(MakeEvidence, AsksForNoTimeAndDeletesItself) {
  RequestJson request = *RequestOf({.target = {"job/llm"}}, nullptr);
  MakeEvidence(request);
  EXPECT_EQ(request["metadata"].dump(), R"({"generateName":"why-llm-"})");
  EXPECT_EQ(request["spec"]["record"], "Evidence");
  EXPECT_EQ(request["spec"]["ttlAfterFinished"], "24h");
  EXPECT_FALSE(request["spec"].contains("duration"));
}

}  // namespace
}  // namespace strobe::cluster
