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

TEST(RequestOf, NamedTargetsAreRecordedTogether) {
  const auto request = RequestOf({.target = {"prefill=deploy/vllm-p", "decode=llm-d.ai/role=decode",
                                             "router=pod/r-0", "router=pod/r-1"},
                                  .fields = {{"--duration", "2s"}}},
                                 nullptr);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->at("metadata").dump(), R"({"generateName":"vllm-p-"})");
  EXPECT_EQ(nlohmann::json(request->at("spec")), nlohmann::json::parse(R"({
    "targets": [{"name": "prefill", "jobRef": {"kind": "Deployment", "name": "vllm-p"}},
                {"name": "decode", "selector": {"matchLabels": {"llm-d.ai/role": "decode"}}},
                {"name": "router", "pods": ["r-0", "r-1"]}],
    "duration": "2s"})"));
}

TEST(RequestOf, FlagsOfATargetCountForEach) {
  const auto request = RequestOf({.target = {"prefill=deploy/p", "decode=deploy/d"},
                                  .fields = {{"--sample", "3"}, {"--container", "vllm"}}},
                                 nullptr);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_FALSE(request->at("spec").contains("target"));
  for (const RequestJson& target : request->at("spec").at("targets")) {
    EXPECT_EQ(target.at("container"), "vllm");
    EXPECT_EQ(target.at("workers").dump(), R"({"count":3,"policy":"Sample"})");
  }
}

TEST(RequestOf, AFilesTargetsStayUnlessAnotherIsNamed) {
  const RequestJson file = RequestJson::parse(R"({"kind": "ProfileRequest", "metadata": {},
    "spec": {"targets": [{"name": "prefill", "pods": ["p"]}]}})");
  EXPECT_EQ(RequestOf({}, file)->at("spec"), file.at("spec"));
  EXPECT_EQ(RequestOf({.target = {"job/llm"}}, file)->at("spec").dump(),
            R"({"target":{"jobRef":{"kind":"Job","name":"llm"}}})");
}

TEST(RequestOf, SaysHowTargetsAreNamed) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"prefill=deploy/p", "deploy/d"}, {"=deploy/p"}, {"prefill="}})
    EXPECT_THAT(RequestOf({.target = words}, nullptr).status().message(),
                HasSubstr("write NAME=KIND/NAME"));
  EXPECT_FALSE(RequestOf({.target = {"prefill=deploy/p", "prefill=deploy/q"}}, nullptr).ok());
  EXPECT_FALSE(RequestOf({.target = {"a=deploy/p"}, .selector = "app=x"}, nullptr).ok());
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
