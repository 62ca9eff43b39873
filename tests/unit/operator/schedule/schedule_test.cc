#include "operator/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/base/names.h"
#include "operator/base/requester_json.h"
#include "operator/objects/request.h"

namespace strobe::schedule {
namespace {

TEST(Schedule, NamesOfRunsFollowFromTheTimeAndBack) {
  const WallTime time = WallTime{std::chrono::seconds(1'730'000'007)};
  EXPECT_EQ(RunNameOf("nightly", time), "nightly-20241027-033327");
  EXPECT_EQ(ScheduleOfRun("nightly-20241027-033327"), "nightly");
  EXPECT_EQ(TimeOfRun("nightly-20241027-033327"), time);
  EXPECT_EQ(TimeOfRun("nightly-20241327-033327"), std::nullopt);
  EXPECT_EQ(TimeOfRun("nightly"), std::nullopt);
  EXPECT_EQ(ScheduleOfRun("a-b-20241027-033327"), "a-b");
  EXPECT_EQ(ScheduleOfRun("20241027-033327-20241027-033327"), "20241027-033327");
  for (const char* name :
       {"", "nightly", "20241027-033327", "-20241027-033327", "nightly20241027-033327",
        "nightly-20241027x033327", "nightly-2024102a-033327", "nightly-20241027-0333271"})
    EXPECT_EQ(ScheduleOfRun(name), "") << name;
}

TEST(Schedule, ARunsOtherNameTellsTheSame) {
  kube::RunCreator creator(kube::CreatorKind::kSchedule);
  creator.uid = "u";
  const std::string usual = "nightly-20241027-033327";
  const std::string other = kube::OtherRunName(usual, creator, "key");
  EXPECT_EQ(other, kube::OtherRunName(usual, creator, "key"));
  EXPECT_NE(other, kube::OtherRunName(usual, creator, "another key"));
  EXPECT_EQ(ScheduleOfRun(other), "nightly");
  EXPECT_EQ(TimeOfRun(other), TimeOfRun(usual));
  EXPECT_EQ(kube::UsualRunName(other), usual);
  creator.uid = "v";
  EXPECT_NE(other, kube::OtherRunName(usual, creator, "key"));
  for (const std::string& name :
       std::vector<std::string>{"", usual, "nightly-x0123456789abcde", "nightly-x0123456789abcdeg",
                                "-x0123456789abcdef"})
    EXPECT_EQ(kube::UsualRunName(name), name);
}

using namespace std::chrono_literals;
using Json = nlohmann::json;
using testing::HasSubstr;

Json ScheduleObject() {
  return Json::parse(R"({
    "metadata": {"name": "nightly", "namespace": "ml", "uid": "u", "resourceVersion": "7", "generation": 2,
                 "creationTimestamp": "2024-11-01T00:00:00Z"},
    "spec": {"schedule": "0 2 * * *", "timeZone": "Europe/Berlin", "concurrencyPolicy": "Replace", "startingDeadline": "5m",
             "keepFor": "168h", "successfulRunsHistoryLimit": 5, "failedRunsHistoryLimit": 1, "sample": {"workers": 4, "rotate": true},
             "template": {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}},
                          "spec": {"target": {"selector": {"matchLabels": {"app": "train"}}, "workers": {"policy": "All", "localRanks": [0]}},
                                   "logdir": "/logs", "duration": "5s"}}}})");
}

ProfileSchedule ParsedSchedule(const Json& object) {
  const auto parsed = ParseSchedule(object);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return *parsed;
}

TEST(ScheduleJson, FieldsAreRead) {
  const ProfileSchedule schedule = ParsedSchedule(ScheduleObject());
  EXPECT_EQ(schedule.invalid, "");
  EXPECT_EQ(schedule.timing.Text(), "0 2 * * * Europe/Berlin");
  EXPECT_EQ(schedule.concurrency, ConcurrencyPolicy::kReplace);
  EXPECT_EQ(schedule.starting_deadline, 5min);
  EXPECT_EQ(schedule.keep_succeeded, 5u);
  EXPECT_EQ(schedule.keep_failed, 1u);
  EXPECT_EQ(schedule.keep_for, 168h);
  EXPECT_TRUE(schedule.rotates);
  EXPECT_EQ(schedule.generation, 2);
}

TEST(ScheduleJson, ARunIsTheTemplateWithItsNameOwnerAndTurn) {
  const ProfileSchedule schedule = ParsedSchedule(ScheduleObject());
  const Json run = RunToJson(schedule, {schedule.created + 90min, "nightly-20241101-013000", 6});
  EXPECT_EQ(run["metadata"]["name"], "nightly-20241101-013000");
  EXPECT_EQ(run["metadata"]["labels"], Json({{"team", "a"}, {kube::kScheduleLabel, "nightly"}}));
  EXPECT_EQ(run["metadata"]["annotations"],
            Json({{"note", "x"}, {kube::kScheduledTimeAnnotation, "2024-11-01T01:30:00Z"}}));
  EXPECT_TRUE(objects::SaysItIsRunOf(run, "u"));
  EXPECT_FALSE(objects::SaysItIsRunOf(run, "v"));
  EXPECT_FALSE(objects::SaysItIsRunOf(Json::object(), ""));
  const auto request = objects::ParseRequest(run);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->invalid, "");
  EXPECT_TRUE(request->target.sample);
  EXPECT_EQ(request->target.count, 4u);
  EXPECT_EQ(request->target.rotation, 6u);
  EXPECT_EQ(request->target.local_ranks, std::vector<std::uint32_t>{0});
  EXPECT_EQ(request->capture.duration, 5s);
}

TEST(ScheduleJson, WhatIsWrongIsNamedByItsField) {
  const auto why = [](const char* patch) {
    Json object = ScheduleObject();
    object.merge_patch(Json::parse(patch));
    return ParsedSchedule(object).invalid;
  };
  EXPECT_THAT(why(R"({"spec": {"schedule": "0 25 * * *"}})"), HasSubstr("spec.schedule: the hour"));
  EXPECT_THAT(why(R"({"spec": {"timeZone": "Mars/Base"}})"),
              HasSubstr("spec.timeZone: \"Mars/Base\""));
  EXPECT_THAT(why(R"({"spec": {"interval": "10m"}})"), HasSubstr("exactly one"));
  EXPECT_THAT(why(R"({"spec": {"template": {"spec": {"target": {"workers": {"count": 2}}}}}})"),
              HasSubstr("sample chooses the workers"));
  EXPECT_THAT(
      why(R"({"spec": {"template": {"spec": {"target": {"selector": {"matchLabels": {"app": "my app"}}}}}}})"),
      HasSubstr("spec.template.spec.target.selector"));
  EXPECT_THAT(why(R"({"spec": {"template": {"metadata": {"labels": {"a": "b c"}}}}})"),
              HasSubstr("spec.template.metadata.labels: a"));
  EXPECT_THAT(why(R"({"spec": {"template": {"metadata": {"annotations": {"a b": "c"}}}}})"),
              HasSubstr("spec.template.metadata.annotations: a b"));
  // Runs of a schedule must not look like those of a trigger.
  EXPECT_THAT(
      why(R"({"spec": {"template": {"metadata": {"labels": {"strobe.dev/triggered-job": "x"}}}}})"),
      HasSubstr("spec.template.metadata.labels: strobe.dev/triggered-job"));
  EXPECT_THAT(why(R"({"spec": {"template": 3}})"), HasSubstr("wrong type"));
  EXPECT_THAT(
      why(R"({"metadata": {"name": "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"}})"),
      HasSubstr("metadata.name"));
  EXPECT_EQ(why(R"({"spec": {"template": {"spec": {"logdir": null}}}})"), "")
      << "a policy may give one";
}

TEST(ScheduleJson, AStatusIsReadAsItWasWritten) {
  Json object = ScheduleObject();
  const ProfileSchedule schedule = ParsedSchedule(object);
  ScheduleStatus status;
  status.observed_generation = 2;
  status.timing = "x";
  status.decided_until = status.last_schedule = status.next_schedule = schedule.created;
  status.last_success = schedule.created + 1s;
  status.last_run = "nightly-1";
  status.active = {{"nightly-1", schedule.created}};
  status.started = 5;
  status.succeeded = 2;
  status.failed = status.cancelled = 1;
  status.skipped = 7;
  status.last_skip = SkippedRun{schedule.created, "Missed", "why"};
  status.conditions = {{"Ready", kube::ConditionStatus::kTrue, "Valid", "m", 2, schedule.created}};
  const Json written = ScheduleStatusToJson(schedule, status);
  EXPECT_EQ(written["metadata"]["uid"], "u");
  EXPECT_EQ(written["metadata"]["resourceVersion"], "7");
  EXPECT_EQ(written["status"]["runs"]["summary"], "2/4");
  EXPECT_EQ(written["status"]["activeRuns"], 1);
  object["status"] = written["status"];
  EXPECT_EQ(ParsedSchedule(object).status, status);
}

TEST(ScheduleJson, ARunsEndIsReadFromItsCondition) {
  const auto state = [](const char* status) {
    return objects::ParseRun(
               Json::parse(
                   StrCat(R"({"metadata": {"name": "r", "uid": "x"}, "status": )", status, "}")))
        .state;
  };
  EXPECT_EQ(state("null"), kube::RunState::kUnfinished);
  EXPECT_EQ(state(R"({"conditions": [{"type": "Succeeded", "status": "Unknown"}]})"),
            kube::RunState::kUnfinished);
  EXPECT_EQ(state(R"({"conditions": [{"type": "Succeeded", "status": "True"}]})"),
            kube::RunState::kSucceeded);
  EXPECT_EQ(
      state(R"({"conditions": [{"type": "Succeeded", "status": "False", "reason": "Cancelled"}]})"),
      kube::RunState::kCancelled);
  EXPECT_EQ(
      state(R"({"conditions": [{"type": "Succeeded", "status": "False", "reason": "NoTargets"}]})"),
      kube::RunState::kFailed);
}

TEST(ScheduleJson, TheSealCoversWhatIsCapturedAndWhen) {
  Json object = ScheduleObject();
  const kube::Requester jane{.username = "jane"};
  const auto holds = [&](const Json& changed) {
    const auto stamped = kube::CreatorRequesterOf(kube::CreatorKind::kSchedule, changed, "ml");
    return stamped &&
           kube::SealHolds(std::vector<std::string>{"key"}, stamped->admission, stamped->seal);
  };
  for (const std::string uid : {"", "u"}) {
    object["metadata"]["annotations"][kube::kRequesterAnnotation] = kube::SealCreator(
        kube::CreatorKind::kSchedule, object, "ml", jane, WallTime{1s}, "key", uid);
    ASSERT_TRUE(holds(object));
    EXPECT_EQ(kube::CreatorRequesterOf(kube::CreatorKind::kSchedule, object, "ml")->uid, uid);
    EXPECT_EQ(
        kube::CreatorRequesterOf(kube::CreatorKind::kSchedule, object, "ml")->requester.username,
        "jane");
    for (
        const char* patch :
        {R"({"spec": {"schedule": "* * * * *"}})", R"({"spec": {"sample": {"workers": 9}}})",
         R"({"spec": {"template": {"spec": {"duration": "10m"}}}})",
         R"({"metadata": {"name": "other"}})",
         R"({"spec": {"template": {"spec": {"target": {"selector": {"matchLabels": {"app": "x"}}}}}}})"}) {
      Json changed = object;
      changed.merge_patch(Json::parse(patch));
      EXPECT_FALSE(holds(changed)) << patch;
    }
    object["spec"]["suspend"] = true;
    EXPECT_TRUE(holds(object)) << "anybody who may change it may suspend it";
  }
  // The UID of another object cannot be put in.
  std::string stamp = object["metadata"]["annotations"][kube::kRequesterAnnotation];
  stamp.replace(stamp.find("\"object\":\"u\""), 12, "\"object\":\"v\"");
  object["metadata"]["annotations"][kube::kRequesterAnnotation] = stamp;
  EXPECT_FALSE(holds(object));
}

}  // namespace
}  // namespace strobe::schedule
