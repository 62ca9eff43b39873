#include "operator/trigger/trigger.h"

#include <gmock/gmock.h>

#include "operator/base/names.h"
#include "operator/base/requester_json.h"
#include "operator/objects/request.h"

namespace strobe::trigger {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using testing::HasSubstr;

Json TriggerObject(const char* patch = "{}") {
  Json object = Json::parse(R"({
    "metadata": {"name": "slow", "namespace": "ml", "uid": "u", "resourceVersion": "7", "generation": 2,
                 "creationTimestamp": "2024-11-01T00:00:00Z"},
    "spec": {"alerts": {"matchLabels": {"alertname": "StepSlow"}, "podLabel": "pod"},
             "budget": {"coolDown": "5m", "capturesPerDay": 3, "dutyCycle": "0.5%", "bytesPerDay": "2Gi"},
             "template": {"metadata": {"labels": {"team": "a"}},
                          "spec": {"logdir": "/logs", "duration": "5s", "lookBack": "30s"}}}})");
  object.merge_patch(Json::parse(patch));
  return object;
}

ProfileTrigger ParsedTrigger(const Json& object) {
  const auto parsed = ParseTrigger(object);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return *parsed;
}

TEST(TriggerJson, FieldsAreRead) {
  const ProfileTrigger trigger = ParsedTrigger(TriggerObject());
  EXPECT_EQ(trigger.invalid, "");
  EXPECT_EQ(trigger.alerts.match_labels.at("alertname"), "StepSlow");
  EXPECT_EQ(trigger.alerts.namespace_label, "namespace");
  EXPECT_EQ(trigger.budget.cool_down, 5min);
  EXPECT_EQ(trigger.budget.captures_per_day, 3);
  EXPECT_DOUBLE_EQ(*trigger.budget.duty_cycle, 0.005);
  EXPECT_EQ(trigger.budget.bytes_per_day, std::uint64_t{2} << 30);
  EXPECT_FALSE(trigger.has_target);
  EXPECT_EQ(trigger.duration, 35s) << "with what it looks back";
  EXPECT_EQ(trigger.keep_succeeded, 3u);
}

TEST(TriggerJson, ARunIsTheTemplateForTheJobOfTheAlert) {
  const ProfileTrigger trigger = ParsedTrigger(TriggerObject());
  TriggeredRun made{
      .name = "slow-1", .job = "JobSet/llm", .alert = "f@t", .alert_name = "StepSlow"};
  made.target = kube::JobRef{"", "JobSet", "llm"};
  Json run = RunToJson(trigger, made);
  EXPECT_EQ(run["metadata"]["labels"],
            Json({{"team", "a"},
                  {kube::kTriggerLabel, "slow"},
                  {kube::kTriggeredJobLabel, job::JobHash("JobSet/llm")}}));
  EXPECT_TRUE(objects::SaysItIsRunOf(run, "u"));
  const auto request = objects::ParseRequest(run);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->invalid, "");
  EXPECT_EQ(request->finalizers, std::vector<std::string>{kube::kFinalizer});
  EXPECT_EQ(request->target.job->name, "llm");
  EXPECT_EQ(request->capture.look_back, 30s);

  run["metadata"]["creationTimestamp"] = "2024-11-01T01:00:00Z";
  TriggerRun read = ParseTriggeredRun(run);
  EXPECT_EQ(read.trigger_uid, "u");
  EXPECT_EQ(read.job, "JobSet/llm");
  EXPECT_EQ(read.alert, "f@t");
  EXPECT_EQ(read.recorded, 35s) << "it will record, and looks back";
  EXPECT_EQ(read.created - trigger.created, 1h);
  run["status"] = Json::parse(R"({"attempt": 2, "bytes": 77,
                                  "conditions": [{"type": "Succeeded", "status": "False", "reason": "Failed"}]})");
  read = ParseTriggeredRun(run);
  EXPECT_EQ(read.state, kube::RunState::kFailed);
  EXPECT_EQ(read.recorded, 70s);
  EXPECT_EQ(read.bytes, 77u);
  run["status"].erase("attempt");
  EXPECT_EQ(ParseTriggeredRun(run).recorded, 0s) << "it ended before it recorded";
}

TEST(TriggerJson, ATargetInTheTemplateIsTaken) {
  const ProfileTrigger trigger = ParsedTrigger(TriggerObject(
      R"({"spec": {"sample": {"workers": 2}, "template": {"spec": {"target": {"jobRef": {"kind": "JobSet", "name": "llm"}}}}}})"));
  EXPECT_EQ(trigger.invalid, "");
  EXPECT_TRUE(trigger.has_target);
  EXPECT_EQ(trigger.target_job, "JobSet/llm");
  const Json run = RunToJson(trigger, {.name = "slow-4", .rotation = 3, .job = trigger.target_job});
  EXPECT_EQ(run["spec"]["target"]["jobRef"]["name"], "llm");
  EXPECT_EQ(run["spec"]["target"]["workers"]["turn"], 3);
  const auto job_of = [](const char* target) {
    Json object = TriggerObject();
    object["spec"]["template"]["spec"]["target"] = Json::parse(target);
    return ParsedTrigger(object).target_job;
  };
  EXPECT_EQ(job_of(R"({"pods": ["b", "a"]})"), "Pod/a,b");
  EXPECT_EQ(
      job_of(R"({"selector": {"matchLabels": {"app": "a"}}, "workers": {"localRanks": [0]}})"),
      "Selector/app=a");
}

TEST(TriggerJson, WhatIsWrongIsNamedByItsField) {
  const auto why = [](const char* patch) { return ParsedTrigger(TriggerObject(patch)).invalid; };
  for (const auto& [patch, words] : std::vector<std::pair<const char*, const char*>>{
           {R"({"spec": {"alerts": {"matchLabels": null}}})", "spec.alerts.matchLabels: give"},
           {R"({"spec": {"alerts": {"namespaceLabel": ""}}})", "spec.alerts.namespaceLabel"},
           {R"({"spec": {"alerts": {"jobKind": "CronJob"}}})", "spec.alerts.jobKind"},
           {R"({"spec": {"budget": {"coolDown": "1s"}}})", "spec.budget.coolDown"},
           {R"({"spec": {"budget": {"coolDown": "25h"}}})", "spec.budget.coolDown"},
           {R"({"spec": {"budget": {"coolDown": "soon"}}})", "spec.budget.coolDown"},
           {R"({"spec": {"budget": {"capturesPerDay": 0}}})", "spec.budget.capturesPerDay"},
           {R"({"spec": {"budget": {"dutyCycle": "0.5"}}})", "spec.budget.dutyCycle"},
           {R"({"spec": {"budget": {"dutyCycle": "0%"}}})", "spec.budget.dutyCycle"},
           {R"({"spec": {"budget": {"dutyCycle": "101%"}}})", "spec.budget.dutyCycle"},
           {R"({"spec": {"budget": {"dutyCycle": "nan%"}}})", "spec.budget.dutyCycle"},
           {R"({"spec": {"keepFor": "soon"}})", "spec.keepFor"},
           {R"({"spec": {"keepFor": "30s"}})", "spec.keepFor"},
           {R"({"spec": {"budget": {"bytesPerDay": "many"}}})", "spec.budget.bytesPerDay"},
           {R"({"spec": {"template": {"metadata": {"labels": {"a": "b c"}}}}})",
            "spec.template.metadata.labels"},
           {R"({"spec": {"template": {"spec": {"logdir": "ftp://x"}}}})", "spec.template.spec."},
           {R"({"spec": {"alerts": null}})", "spec.alerts: give alerts or signs"},
           {R"({"spec": {"signs": {}}})", "spec.signs: give at least one"},
           {R"({"spec": {"signs": {"stepsSlower": {"percent": 9}}}})",
            "spec.signs.stepsSlower.percent"},
           {R"({"spec": {"signs": {"slowerThanOthers": {"steps": 2}}}})",
            "spec.signs.slowerThanOthers.steps"},
           {R"({"spec": {"signs": {"iterationSlower": {"iterations": 0}}}})",
            "spec.signs.iterationSlower.iterations"},
           {R"({"spec": {"signs": {"noStepFor": "1s"}}})", "spec.signs.noStepFor"},
           {R"({"spec": {"signs": {"noStepFor": "soon"}}})", "spec.signs.noStepFor"},
           {R"({"spec": {"signs": {"memoryNearLimit": {"percent": 101}}}})",
            "spec.signs.memoryNearLimit.percent"},
           {R"({"spec": {"signs": {"stepsSlower": 5}}})", "wrong type"},
           {R"({"spec": {"alerts": []}})", "wrong type"}}) {
    EXPECT_THAT(why(patch), HasSubstr(words)) << patch;
  }
  Json object = TriggerObject();
  object["metadata"]["name"] = std::string(64, 'a');
  EXPECT_THAT(ParsedTrigger(object).invalid, HasSubstr("a trigger's name has at most 63"));
}

TEST(TriggerJson, SignsAreReadWithTheirDefaults) {
  const ProfileTrigger trigger = ParsedTrigger(TriggerObject(R"({"spec": {"alerts": null, "signs": {
      "stepsSlower": {}, "slowerThanOthers": {"percent": 30, "steps": 100}, "noStepFor": "2m",
      "memoryNearLimit": {}}, "template": {"spec": {"target": {"selector": {"matchLabels": {"app": "a"}}}}}}})"));
  EXPECT_EQ(trigger.invalid, "");
  EXPECT_TRUE(trigger.alerts.match_labels.empty());
  EXPECT_EQ(trigger.signs.steps_slower->percent, 50u);
  EXPECT_EQ(trigger.signs.steps_slower->steps, 10u);
  EXPECT_EQ(trigger.signs.slower_than_others->percent, 30u);
  EXPECT_EQ(trigger.signs.slower_than_others->steps, 100u);
  EXPECT_EQ(trigger.signs.no_step_for, 2min);
  EXPECT_EQ(trigger.signs.memory_percent, 90u);
  EXPECT_TRUE(trigger.target.selector->Matches({{"app", "a"}}));
  EXPECT_FALSE(ParsedTrigger(TriggerObject()).signs.any());
  const ProfileTrigger server = ParsedTrigger(
      TriggerObject(R"({"spec": {"alerts": null, "signs": {"iterationSlower": {}}}})"));
  EXPECT_EQ(server.signs.iteration_slower->percent, 200u);
  EXPECT_EQ(server.signs.iteration_slower->steps, 1u);
  TriggeredRun made{.name = "slow-1", .job = "Job/a", .alert_name = "NoStep", .sign = "p: none"};
  EXPECT_EQ(ParseTriggeredRun(RunToJson(trigger, made)).sign, "p: none");
}

TEST(TriggerJson, AStatusIsReadAsItIsWritten) {
  ProfileTrigger trigger = ParsedTrigger(TriggerObject());
  TriggerStatus status;
  status.observed_generation = 2;
  status.last_alert = trigger.created + 2h;
  status.last_capture =
      LastCapture{trigger.created + 1h, "slow-1", "JobSet/llm", "StepSlow", "p: x"};
  status.active = 1;
  status.taken = 3;
  status.skipped = {{policy::kCoolDown, 5}, {kPodNotFound, 1}};
  status.last_skip = SkippedAlert{trigger.created + 2h, policy::kCoolDown, "wait", "JobSet/llm"};
  status.budgets = {{"JobSet/llm", 2, 3700s, 12345, trigger.created + 1h}};
  const Json written = TriggerStatusToJson(trigger, status);
  EXPECT_EQ(written["metadata"]["resourceVersion"], "7");
  EXPECT_EQ(written["status"]["alerts"]["summary"], "3/9");
  Json object = TriggerObject();
  object["status"] = Json::parse(written["status"].dump());
  EXPECT_EQ(ParsedTrigger(object).status, status);
}

TEST(TriggerJson, TheSealCoversAlertsBudgetAndRun) {
  const auto content = [](const char* patch) {
    Json object = TriggerObject(patch);
    object["metadata"]["annotations"][kube::kRequesterAnnotation] = kube::SealCreator(
        kube::CreatorKind::kTrigger, object, "ml", {.username = "jane"}, WallTime{}, "k", "");
    return ParsedTrigger(object).admission.content;
  };
  const std::string before = content("{}");
  for (const char* patch : {R"({"spec": {"alerts": {"matchLabels": {"a": "b"}}}})",
                            R"({"spec": {"alerts": {"podLabel": "p"}}})",
                            R"({"spec": {"budget": {"capturesPerDay": 99}}})",
                            R"({"spec": {"signs": {"noStepFor": "2m"}}})",
                            R"({"spec": {"signs": {"stalled": {"steps": 20}}}})",
                            R"({"spec": {"template": {"spec": {"record": "Evidence"}}}})",
                            R"({"spec": {"template": {"spec": {"logdir": "/other"}}}})"})
    EXPECT_NE(content(patch), before) << patch;
  EXPECT_EQ(content(R"({"spec": {"suspend": true}})"), before);
  EXPECT_EQ(content(R"({"spec": {"template": {"spec": {"record": "Trace"}}}})"), before)
      << "the schema adds it to triggers that were sealed without it";
}

TEST(TriggerJson, AWorkerThatStandsStillStartsARunOfEvidence) {
  const ProfileTrigger trigger = ParsedTrigger(
      TriggerObject(R"({"spec": {"signs": {"stalled": {"forAtLeast": "10s", "steps": 20}},
                                 "sample": {"workers": 2},
                                 "template": {"spec": {"start": {"guard": "1ms"}}}}})"));
  EXPECT_EQ(trigger.invalid, "");
  ASSERT_TRUE(trigger.signs.stalled.has_value());
  EXPECT_EQ(trigger.signs.stalled->at_least, 10s);
  EXPECT_EQ(trigger.signs.stalled->steps, 20u);
  TriggeredRun made{.name = "slow-1",
                    .job = "Job/llm",
                    .alert = "f@t",
                    .alert_name = "Stalled",
                    .sign = "llm-0: no step has begun"};
  made.target = kube::JobRef{"", "Job", "llm"};
  auto request = objects::ParseRequest(RunToJson(trigger, made));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->invalid, "");
  EXPECT_TRUE(request->capture.collects_evidence);
  EXPECT_EQ(request->capture.duration, Nanos{0});
  EXPECT_FALSE(request->target.sample) << "all workers are asked";
  made.alert_name = "NoStep";
  request = objects::ParseRequest(RunToJson(trigger, made));
  EXPECT_FALSE(request->capture.collects_evidence) << "other signs record what the template says";
  EXPECT_EQ(request->capture.look_back, 30s);
  for (const char* wrong :
       {R"({"forAtLeast": "500ms"})", R"({"forAtLeast": "2h"})", R"({"steps": 1})"}) {
    Json object = TriggerObject();
    object["spec"]["signs"]["stalled"] = Json::parse(wrong);
    EXPECT_THAT(ParsedTrigger(object).invalid, HasSubstr("spec.signs.stalled.")) << wrong;
  }
}

TEST(TriggerJson, WhatARunFoundOfAStallIsRead) {
  Json run = Json::parse(R"({"metadata": {"name": "slow-1"}, "status": {
    "conditions": [{"type": "Stalled", "status": "True", "reason": "Host"}],
    "stall": {"class": "Host", "confidence": "Firm", "verdict": "rank 9 holds up 3 others",
              "culprits": [{"rank": 9, "pod": "llm-9", "node": "node-3"}, "nonsense"]}}})");
  TriggerRun read = ParseTriggeredRun(run);
  EXPECT_TRUE(read.stalled);
  EXPECT_EQ(read.stall_class, "Host");
  EXPECT_EQ(read.stall_confidence, "Firm");
  EXPECT_EQ(read.stall_verdict, "rank 9 holds up 3 others");
  ASSERT_EQ(read.culprits.size(), 2u);
  EXPECT_EQ(read.culprits[0].rank, 9);
  EXPECT_EQ(read.culprits[0].node, "node-3");
  EXPECT_EQ(read.culprits[1].rank, -1);
  run["status"]["conditions"][0] = {
      {"type", "Stalled"}, {"status", "False"}, {"reason", "Restarted"}};
  EXPECT_TRUE(ParseTriggeredRun(run).stalled) << "the verdict is about what ended";
  run["status"]["conditions"][0]["reason"] = "JobMoves";
  EXPECT_FALSE(ParseTriggeredRun(run).stalled);
}

TEST(TriggerJson, TheLastStallIsReadAsItIsWritten) {
  ProfileTrigger trigger = ParsedTrigger(TriggerObject());
  trigger.status.last_stall = LastStall{.time = WallTime{1'700'000'000s},
                                        .run = "slow-1",
                                        .job = "Job/llm",
                                        .kind = "Host",
                                        .confidence = "Firm",
                                        .verdict = "rank 9 holds up 3 others",
                                        .repeated = "rank 9 on node-3 in the last 3 stalls"};
  Json object = TriggerObject();
  object["status"] = TriggerStatusToJson(trigger, trigger.status)["status"];
  EXPECT_EQ(ParsedTrigger(object).status.last_stall, trigger.status.last_stall);
}

}  // namespace
}  // namespace strobe::trigger
