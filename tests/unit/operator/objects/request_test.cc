#include "operator/objects/request.h"

#include <gmock/gmock.h>

#include <functional>

#include "capture/spec.h"
#include "common/base/strings.h"
#include "operator/request/request_status.h"

namespace strobe::objects {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

json Object() {
  return json::parse(R"({
    "metadata": {"name": "look", "namespace": "team", "uid": "u-1", "resourceVersion": "7", "generation": 2,
                 "creationTimestamp": "2026-11-21T04:08:24Z", "finalizers": ["strobe.dev/capture"]},
    "spec": {"target": {"selector": {"matchLabels": {"app": "train"}}, "workers": {"policy": "Sample", "ranks": [0, 3]}},
             "duration": "1m30s", "start": {"delay": "10s", "guard": "7ms", "minRunningRequests": 2}, "maxSkew": "2ms", "maxPause": "500ms", "onLateStart": "Discard",
             "minWorkers": 3, "attempts": 5, "logdir": "gs://bucket/x", "tracers": {"host": "Verbose", "device": "Disabled", "python": "Enabled", "shapes": true, "flops": true},
             "maxBytesPerWorker": "512Mi", "abortWhen": {"memoryPercent": "Never", "slowdownPercent": 50},
             "ttlAfterFinished": "24h", "reclaimPolicy": "Delete", "preflightOnly": true, "cancel": true}})");
}

TEST(ParseRequest, ReadsEveryField) {
  const auto request = ParseRequest(Object());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->capture.request, "team/look");
  EXPECT_EQ(request->target.selector, "app=train");
  EXPECT_TRUE(request->target.sample);
  EXPECT_EQ(request->target.ranks, (std::vector<int>{0, 3}));
  EXPECT_EQ(request->capture.duration, 90s);
  EXPECT_EQ(request->capture.delay, 10s);
  EXPECT_EQ(request->capture.guard, 7ms);
  EXPECT_EQ(request->capture.max_skew, 2ms);
  EXPECT_EQ(request->capture.max_pause, 500ms);
  EXPECT_EQ(request->capture.min_running_requests, 2u);
  EXPECT_EQ(request->capture.on_late_start, capture::OnLateStart::kDiscard);
  EXPECT_EQ(request->min_workers, "3");
  EXPECT_EQ(request->capture.attempts, 5);
  EXPECT_EQ(request->capture.logdir, "gs://bucket/x");
  EXPECT_EQ(request->capture.run, "2026_11_21_04_08_24_look_u-1");
  EXPECT_EQ(request->capture.tracers.host(), 3u);
  EXPECT_EQ(request->capture.tracers.device(), 0u);
  EXPECT_EQ(request->capture.tracers.python(), 1u);
  EXPECT_EQ(request->capture.max_bytes, 512ull << 20);
  EXPECT_EQ(request->capture.abort_memory_percent, 0u);
  EXPECT_EQ(request->capture.abort_slowdown_percent, 50u);
  EXPECT_TRUE(request->capture.tracers.shapes() && request->capture.tracers.flops());
  EXPECT_FALSE(request->capture.tracers.stacks() || request->capture.tracers.memory() ||
               request->capture.tracers.modules());
  EXPECT_EQ(request->ttl, 24h);
  EXPECT_TRUE(request->reclaim);
  EXPECT_TRUE(request->cancel);
  EXPECT_TRUE(request->capture.preflight_only);
}

json ObjectWithTargets() {
  json object = Object();
  object["spec"].erase("target");
  object["spec"]["targets"] = json::parse(R"([
    {"name": "prefill", "jobRef": {"kind": "Deployment", "name": "vllm-p"}, "minWorkers": 1},
    {"name": "decode", "selector": {"matchLabels": {"llm-d.ai/role": "decode"}},
     "workers": {"policy": "Sample", "count": 2}}])");
  return object;
}

TEST(ParseRequest, ReadsSeveralTargets) {
  const auto request = ParseRequest(ObjectWithTargets());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->invalid, "");
  ASSERT_EQ(TargetsOf(*request).size(), 2u);
  const job::TargetSpec &prefill = request->targets[0], &decode = request->targets[1];
  EXPECT_EQ(prefill.name, "prefill");
  EXPECT_EQ(prefill.job->name, "vllm-p");
  EXPECT_EQ(prefill.min_workers, "1");
  EXPECT_TRUE(prefill.some_replicas);
  EXPECT_EQ(decode.selector, "llm-d.ai/role=decode");
  EXPECT_EQ(decode.min_workers, "") << "as the request says";
  EXPECT_EQ(decode.count, 2u);
  EXPECT_FALSE(decode.some_replicas);
}

TEST(ParseRequest, OneTargetHasNoNameAndAllWorkers) {
  const auto request = ParseRequest(Object());
  ASSERT_EQ(TargetsOf(*request).size(), 1u);
  EXPECT_EQ(TargetsOf(*request)[0].name, "");
  EXPECT_FALSE(TargetsOf(*request)[0].some_replicas);
}

// The CRD's schema refuses these too.
TEST(ParseRequest, RefusesTargetsThatCannotBeTold) {
  const auto invalid = [](const std::function<void(json&)>& change) {
    json object = ObjectWithTargets();
    change(object["spec"]);
    return ParseRequest(object)->invalid;
  };
  EXPECT_THAT(invalid([](json& spec) {
                spec["target"] = {{"pods", {"a"}}};
              }),
              HasSubstr("exclude each other"));
  EXPECT_THAT(invalid([](json& spec) { spec["targets"] = json::array(); }),
              HasSubstr("1 to 16 entries"));
  EXPECT_THAT(invalid([](json& spec) { spec["targets"][1]["name"] = "prefill"; }),
              HasSubstr("two have the name prefill"));
  for (const char* name : {"", "-a", "Decode", "a/b", "a.b", "012345678901234567890123456789012"})
    EXPECT_THAT(invalid([&](json& spec) { spec["targets"][1]["name"] = name; }),
                HasSubstr("hyphens"));
  EXPECT_THAT(invalid([](json& spec) { spec["steps"] = 5; }), HasSubstr("steps needs one target"));
  EXPECT_THAT(invalid([](json& spec) { spec["targets"][1]["selector"] = json::object(); }),
              HasSubstr("targets.decode.selector is empty"));
}

TEST(StatusToJson, TellsWhatBecameOfEachTarget) {
  ProfileRequest request;
  RequestStatus status;
  status.targets = {{.name = "prefill", .pods = 1, .ok = 1, .skew = "0s", .skew_error = "1ms"},
                    {.name = "decode", .pods = 4, .ok = 0}};
  const json written = StatusToJson(request, status)["status"];
  EXPECT_EQ(written["targets"][0]["skew"]["error"], "1ms");
  EXPECT_EQ(written["targets"][1]["name"], "decode");
  EXPECT_EQ(written["targets"][1]["pods"], 4);
  EXPECT_FALSE(written["targets"][1].contains("skew"));
  json object = Object();
  object["status"] = written;
  EXPECT_EQ(ParseRequest(object)->status.targets, status.targets);
}

TEST(ParseRequest, AbsentFieldsHaveTheSchemasDefaults) {
  json object = Object();
  for (const char* field : {"tracers", "maxBytesPerWorker", "abortWhen"})
    object["spec"].erase(field);
  const auto request = ParseRequest(object);
  EXPECT_EQ(request->capture.tracers.host(), capture::kDefaultHostLevel);
  EXPECT_EQ(request->capture.tracers.device(), 1u);
  EXPECT_EQ(request->capture.tracers.python(), 0u);
  EXPECT_EQ(request->capture.max_bytes, 0u);
  EXPECT_EQ(request->capture.abort_memory_percent, kDefaultAbortMemoryPercent);
  EXPECT_EQ(request->capture.abort_slowdown_percent, 0u);
  object["spec"]["maxBytesPerWorker"] = 1000;
  EXPECT_EQ(ParseRequest(object)->capture.max_bytes, 1000u);
}

TEST(ParseRequest, ReadsLevelsThatWereStoredAsNumbers) {
  json object = Object();
  object["spec"].merge_patch(json::parse(R"({
      "tracers": {"host": 1, "hostFilter": 0, "device": 0, "python": 1},
      "abortWhen": {"memoryPercent": 0, "slowdownPercent": 0}})"));
  const absl::StatusOr<ProfileRequest> request = ParseRequest(object);
  EXPECT_EQ(request->invalid, "");
  EXPECT_EQ(request->capture.tracers.host(), 1u);
  EXPECT_EQ(request->capture.tracers.device(), 0u);
  EXPECT_EQ(request->capture.tracers.python(), 1u);
  EXPECT_EQ(request->capture.abort_memory_percent, 0u) << "no limit";
  object["spec"]["tracers"]["host"] = 4u;
  EXPECT_EQ(ParseRequest(object)->invalid,
            "tracers.host must be one of Disabled, Critical, Info, Verbose");
}

TEST(ParseRequest, ReadsTheModesOfDevices) {
  json object = Object();
  const auto device = [&](const char* mode) {
    object["spec"]["tracers"]["device"] = mode;
    return ParseRequest(object)->capture.tracers.device();
  };
  EXPECT_EQ(device("Enabled"), 1u);
  EXPECT_EQ(device("Kernels"), 2u);
  EXPECT_EQ(device("Launches"), 3u);
  EXPECT_EQ(device("Graphs"), 4u);
  EXPECT_EQ(device("All"), 5u);
  object["spec"]["tracers"]["device"] = "Some";
  EXPECT_EQ(ParseRequest(object)->invalid,
            "tracers.device must be one of Disabled, Enabled, Kernels, Launches, Graphs, All");
  object["spec"]["tracers"] = json::parse(R"({"detach": true})");
  EXPECT_TRUE(ParseRequest(object)->capture.tracers.detach());
}

TEST(ParseRequest, NamesWhatALimitMayBe) {
  json object = Object();
  object["spec"]["maxBytesPerWorker"] = "0";
  EXPECT_THAT(ParseRequest(object)->invalid, HasSubstr("maxBytesPerWorker must be a positive"));
  object = Object();
  object["spec"]["abortWhen"]["memoryPercent"] = "Off";
  EXPECT_THAT(ParseRequest(object)->invalid, HasSubstr("or Never"));
}

TEST(ParseRequest, NamesTheFieldThatIsWrongAndKeepsTheRest) {
  json object = Object();
  object["spec"]["maxSkew"] = "soon";
  EXPECT_THAT(ParseRequest(object)->invalid, HasSubstr("maxSkew"));
  object["spec"].erase("maxSkew");
  object["spec"]["maxPause"] = "11m";
  EXPECT_THAT(ParseRequest(object)->invalid, HasSubstr("maxPause must be from 1ms to 10m"));
  object = Object();
  object["spec"]["logdir"] = "logs";
  EXPECT_THAT(ParseRequest(object)->invalid, HasSubstr("logdir"));
  object = Object();
  object["spec"]["attempts"] = "many";
  EXPECT_THAT(ParseRequest(object)->invalid, HasSubstr("type"));
  EXPECT_EQ(ParseRequest(object)->uid, "u-1");
  EXPECT_FALSE(ParseRequest(json::object()).ok());
}

TEST(ParseRequest, ReadsHowFarToReachBack) {
  json object = Object();
  EXPECT_EQ(ParseRequest(object)->capture.look_back, 0s);
  object["spec"]["lookBack"] = "1m30s";
  EXPECT_EQ(ParseRequest(object)->capture.look_back, 90s);
  object["spec"]["lookBack"] = "11m";
  EXPECT_THAT(ParseRequest(object)->invalid, HasSubstr("lookBack must be at most 10m"));
}

TEST(ParseRequest, ReadsStepsAndTheFirstOfThem) {
  json object = Object();
  object["spec"]["start"] = json::object();
  object["spec"]["steps"] = 5;
  EXPECT_EQ(ParseRequest(object)->capture.steps->from, capture::StepsWanted::From::kNext);
  EXPECT_EQ(ParseRequest(object)->capture.steps->count, 5u);
  object["spec"]["start"]["step"]["number"] = 1200;
  EXPECT_EQ(ParseRequest(object)->capture.steps->from, capture::StepsWanted::From::kNumber);
  EXPECT_EQ(ParseRequest(object)->capture.steps->number, 1200);
  object["spec"]["start"]["step"] = {{"multipleOf", 50}};
  EXPECT_EQ(ParseRequest(object)->capture.steps->from, capture::StepsWanted::From::kMultipleOf);
  object["spec"]["start"]["step"] = {{"multipleOf", 0}};
  EXPECT_THAT(ParseRequest(object)->invalid, HasSubstr("start.step.multipleOf from 1"));
  object["spec"]["steps"] = 0;
  EXPECT_THAT(ParseRequest(object)->invalid, HasSubstr("steps must be from 1"));
  object["spec"].erase("steps");
  EXPECT_THAT(ParseRequest(object)->invalid, HasSubstr("start.step needs steps"));
}

TEST(ParseRequest, TakesASelectorWithAllOperators) {
  json object = Object();
  object["spec"]["target"]["selector"] =
      json::parse(R"({"matchLabels": {"a": "b"}, "matchExpressions": [
      {"key": "c", "operator": "In", "values": ["x", "y"]}, {"key": "d", "operator": "NotIn", "values": ["z"]},
      {"key": "e", "operator": "Exists"}, {"key": "f", "operator": "DoesNotExist"}]})");
  EXPECT_EQ(ParseRequest(object)->target.selector, "a=b,c in (x,y),d notin (z),e,!f");
}

// Regression: such a request never got a status, because the API server answered each list with
// 400.
TEST(ParseRequest, RefusesALabelThatTheApiServerWouldRefuse) {
  const auto invalid = [](const char* selector) {
    json object = Object();
    object["spec"]["target"]["selector"] = json::parse(selector);
    return ParseRequest(object)->invalid;
  };
  EXPECT_THAT(invalid(R"({"matchLabels": {"app": "my app"}})"),
              HasSubstr("target.selector.matchLabels: the value \"my app\" must"));
  EXPECT_THAT(invalid(R"({"matchLabels": {"my app": "x"}})"), HasSubstr("the key \"my app\""));
  EXPECT_THAT(invalid(R"json({"matchExpressions": [{"key": "a", "operator": "Exists"},
                                               {"key": "b", "operator": "In", "values": ["x)"]}]})json"),
              HasSubstr("target.selector.matchExpressions[1]: the value"));
  EXPECT_THAT(invalid(R"({"matchExpressions": [{"key": "a", "operator": "Near"}]})"),
              HasSubstr("the operator must be"));
  EXPECT_THAT(invalid(R"({"matchExpressions": [{"key": "a", "operator": "In"}]})"),
              HasSubstr("need values"));
  EXPECT_THAT(invalid("{}"), HasSubstr("target.selector is empty"));
}

TEST(ParseRequest, ReadsExpectedWorkers) {
  json object = Object();
  object["spec"]["target"]["expectedWorkers"] = 16;
  EXPECT_EQ(ParseRequest(object)->target.expected_workers, 16u);
  object["spec"]["target"]["expectedWorkers"] = 10001;
  EXPECT_THAT(ParseRequest(object)->invalid, HasSubstr("target.expectedWorkers"));
}

TEST(StatusToJson, RoundTrips) {
  ProfileRequest request = *ParseRequest(Object());
  RequestStatus status;
  status.observed_generation = 2;
  status.conditions = {{"Succeeded", kube::ConditionStatus::kTrue, "AllWorkersOk", "8 of 8", 2,
                        WallTime{1'700'000'000s}}};
  status.run = "gs://bucket/x/plugins/profile/r";
  status.start_time = status.completion_time = WallTime{1'700'000'000s};
  status.attempt = 1;
  status.matched = status.ok = 8;
  status.expected = 8;
  status.recorded = 2s;
  status.skew = "12us";
  status.skew_error = "3us";
  status.clock_pod = "p";
  status.clock_offset = "11.6s";
  status.clock_error = "20us";
  status.report = "rank 5 holds up 7 others by 12.4ms a step (18%): input";
  status.bytes = 1'288'490'188;
  status.outcomes = {{"p", "Busy", "held", ""}};
  status.causes = {{"Busy", 3}};
  status.progress = {{"Uploading", 20, {"p", "q"}}};
  const json written = StatusToJson(request, status);
  EXPECT_EQ(written["metadata"]["uid"], "u-1");
  EXPECT_EQ(written["status"]["workers"]["summary"], "8/8");
  EXPECT_EQ(written["status"]["size"], "1229Mi");
  EXPECT_EQ(written["status"]["report"]["headline"], status.report);
  EXPECT_EQ(written["status"]["causes"], json::parse(R"([{"cause": "Busy", "workers": 3}])"));
  json object = Object();
  object["status"] = written["status"];
  const RequestStatus read = ParseRequest(object)->status;
  EXPECT_EQ(StatusToJson(request, read), written);
}

// 2,000 pods with eight processes each. Names and messages are as long as they may be, and there
// are many causes.
capture::AttemptResult SixteenThousandBadWorkers() {
  constexpr std::array kOutcomes = {Outcome::kProfilerStartFailed,
                                    Outcome::kUploadDenied,
                                    Outcome::kWorkerLost,
                                    Outcome::kBusy,
                                    Outcome::kNoSource,
                                    Outcome::kSpoolFull,
                                    Outcome::kUnreachable,
                                    Outcome::kLateStart};
  constexpr std::int64_t kInstantNs = 1'700'000'000'000'000'000;
  capture::AttemptResult result;
  for (int i = 0; i < 16'000; ++i) {
    capture::WorkerResult& worker = result.workers.emplace_back();
    worker.target.pod = StrCat(std::string(240, 'p'), "-", i / 8);
    worker.target.name = StrCat(worker.target.pod, "/", i % 8);
    worker.local_rank = i % 8;
    worker.armed = true;
    worker.outcome = kOutcomes.at(static_cast<std::size_t>(i) % kOutcomes.size());
    worker.message = std::string(1024, 'm');
    worker.error = 20us;
    worker.report.mutable_plan()->set_instant_ns(kInstantNs);
    worker.report.set_started_ns(kInstantNs + i);
  }
  result.report.headline = std::string(600, 'h');
  return result;
}

TEST(StatusToJson, StaysUnderTenKilobytesWithSixteenThousandBadWorkers) {
  ProfileRequest request = *ParseRequest(Object());
  for (const bool preflight_only : {false, true}) {
    request.capture.preflight_only = preflight_only;
    capture::AttemptResult result = SixteenThousandBadWorkers();
    capture::Conclude(request.capture, result);
    const RequestStatus status = request::FinishedStatus(request, result, WallTime{1'700'000'000s});
    const json written = StatusToJson(request, status)["status"];
    EXPECT_EQ(written["workers"]["failed"], 16'000);
    EXPECT_GE(written["outcomes"].size(), 4u);
    EXPECT_EQ(written.value("preflight", json::array()).size() >= 3, preflight_only);
    EXPECT_EQ(written["causes"].size(), 8u);
    EXPECT_LT(written.dump().size(), 10'000u);

    // The next attempt runs, and the status still has the outcomes of the one before.
    request.status = status;
    capture::AttemptProgress progress;
    progress.matched = 16'000;
    progress.waits_for = std::string(2000, 'w');
    capture::WorkersInState& in =
        progress.states.emplace_back(capture::WorkersInState{"ready", 16'000, {}});
    for (int i = 0; i < 64; ++i) in.names.push_back(std::string(253, 'p'));
    const RequestStatus active =
        request::ActiveStatus(request, 2, progress, WallTime{1'700'000'001s});
    const json running = StatusToJson(request, active)["status"];
    EXPECT_GE(running["progress"][0]["pods"].size(), 4u);
    EXPECT_LT(running.dump().size(), 10'000u);
    request.status = {};
  }
}

TEST(PendingSince, ARequestWaitsUntilItsFirstAttemptBeginsOrItEnds) {
  json object = Object();
  object.erase("status");
  const WallTime created = ParseRequest(object)->created;
  EXPECT_EQ(PendingSince(object), created);
  const auto with_status = [&](int attempt, const char* succeeded) {
    object["status"] = {{"attempt", attempt},
                        {"conditions", {{{"type", "Succeeded"}, {"status", succeeded}}}}};
    return PendingSince(object);
  };
  EXPECT_EQ(with_status(0, "Unknown"), created);
  EXPECT_EQ(with_status(1, "Unknown"), std::nullopt);
  EXPECT_EQ(with_status(0, "False"), std::nullopt) << "it was refused before it began";
  object.erase("status");
  object["metadata"]["deletionTimestamp"] = object["metadata"]["creationTimestamp"];
  EXPECT_EQ(PendingSince(object), std::nullopt);
  EXPECT_EQ(PendingSince(json::array()), std::nullopt);
  EXPECT_EQ(PendingSince({{"metadata", 1}, {"status", "x"}}), std::nullopt);
}

TEST(ParseRequest, EvidenceTakesNoTime) {
  json object = Object();
  json& spec = object["spec"];
  for (const char* field : {"start", "maxSkew", "preflightOnly"}) spec.erase(field);
  spec["record"] = "Evidence";
  const auto request = ParseRequest(object);
  EXPECT_EQ(request->invalid, "");
  EXPECT_TRUE(request->capture.collects_evidence);
  EXPECT_EQ(request->capture.duration, Nanos{0});
  EXPECT_EQ(request->capture.ready_timeout, Nanos{0});
  json wrong = object;
  wrong["spec"]["steps"] = 3;
  EXPECT_THAT(ParseRequest(wrong)->invalid, HasSubstr("takes no time; omit steps"));
  wrong = object;
  wrong["spec"]["lookBack"] = "1s";
  EXPECT_THAT(ParseRequest(wrong)->invalid, HasSubstr("takes no time; omit lookBack"));
  wrong = object;
  wrong["spec"]["start"] = json::object();
  EXPECT_THAT(ParseRequest(wrong)->invalid, HasSubstr("takes no time; omit start"));
  spec["preflightOnly"] = true;
  EXPECT_THAT(ParseRequest(object)->invalid, HasSubstr("preflightOnly"));
  spec["record"] = "Everything";
  EXPECT_THAT(ParseRequest(object)->invalid, HasSubstr("Trace or Evidence"));
}

TEST(StatusToJson, AVerdictIsReadAsItIsWritten) {
  ProfileRequest request = *ParseRequest(Object());
  StatusStall& stall = request.status.stall;
  stall.kind = "Host";
  stall.confidence = "Firm";
  stall.verdict = "rank 9 holds up 15 others";
  stall.details = {"Firm: stacks of 16."};
  stall.stacks = {"rank 9 (1 of 16)", "  loader.py:88 in Loader.next"};
  stall.culprits = {{.rank = 9, .pod = "llm-9", .node = "node-3", .line = "l"}, {.rank = 12}};
  json object = Object();
  object["status"] = StatusToJson(request, request.status)["status"];
  EXPECT_EQ(object["status"]["stall"]["class"], "Host");
  EXPECT_EQ(object["status"]["stall"]["culprits"][1], json({{"rank", 12}}));
  EXPECT_EQ(ParseRequest(object)->status.stall, stall);
}

}  // namespace
}  // namespace strobe::objects
