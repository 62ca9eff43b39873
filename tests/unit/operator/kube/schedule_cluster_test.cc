#include "operator/kube/schedule_cluster.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"
#include "operator/core/names.h"
#include "operator/core/namespace_bounds.h"
#include "operator/objects/request_json.h"
#include "operator/objects/requester_json.h"
#include "operator/objects/schedule_json.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::kube {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::SizeIs;

constexpr char kStoredSchedule[] = "/apis/strobe.dev/v1alpha1/namespaces/ml/profileschedules/s";

// An API server with one schedule, which jane created.
class ScheduleClusterTest : public testing::Test {
 protected:
  ScheduleClusterTest() {
    transport_->OnUnary([this](const HttpRequest& request) { return Answer(request); });
    stored_ = Json::parse(R"({
      "metadata": {"name": "s", "namespace": "ml", "uid": "u", "resourceVersion": "7"},
      "spec": {"schedule": "@hourly", "template": {"spec": {"target": {"pods": ["p"]}}}}})");
    stored_["metadata"]["creationTimestamp"] = FormatRfc3339(time_.WallNow());
    Stamp("key");
  }

  void Stamp(const std::string& key, const std::string& uid = "") {
    stored_["metadata"]["annotations"][kRequesterAnnotation] =
        SealCreator(CreatorKind::kSchedule, stored_, "ml", Requester{.username = "jane"},
                    time_.WallNow(), key, uid);
    schedules_.Put(std::make_shared<const Json>(stored_));
  }

  absl::StatusOr<HttpResponse> Answer(const HttpRequest& request) {
    const auto json = [](const Json& object) { return HttpResponse{200, object.dump(), {}}; };
    if (request.path.find("subjectaccessreviews") != std::string::npos) {
      asked_ = Json::parse(request.body)["spec"]["user"];
      return json({{"status", {{"allowed", allowed_}}}});
    }
    if (request.path == "/apis/strobe.dev/v1alpha1/profilepolicies") {
      return json(
          {{"items",
            {{{"metadata", {{"name", "all"}}},
              {"spec", {{"allowedLogdirs", {"/logs"}}, {"defaultLogdir", "/logs/team"}}}}}}});
    }
    if (request.path.starts_with(kStoredSchedule)) {
      if (request.method == "PATCH") {
        if (patch_code_ != 200) return HttpResponse{patch_code_, "{}", {}};
        patch_ = Json::parse(request.body);
        stored_.merge_patch(patch_);
        stored_["metadata"]["resourceVersion"] = StrCat(++version_);
      }
      return json(stored_);
    }
    if (request.path.find("/profilerequests") != std::string::npos) {
      if (request.method == "POST") {
        created_.push_back(Json::parse(request.body));
        return HttpResponse{create_code_, create_answer_, {}};
      }
      return present_.is_null() ? HttpResponse{404, "{}", {}} : json(present_);
    }
    return json({{"metadata", {{"labels", Json::object()}}}});
  }

  ProfileSchedule Schedule() { return *cluster_.GetSchedule("ml/s"); }
  std::string RefusalOf(const absl::StatusOr<std::optional<RunRefusal>>& started) {
    EXPECT_TRUE(started.ok()) << started.status();
    return started.ok() && *started ? (*started)->reason : "";
  }
  absl::StatusOr<std::optional<RunRefusal>> StartRun() {
    return cluster_.StartRun(Schedule(), {time_.WallNow(), "s-20241101-000000", 0});
  }

  SimulatedTime time_;
  const std::shared_ptr<ScriptedTransport> transport_ = std::make_shared<ScriptedTransport>();
  Client client_{time_, transport_};
  ObjectCache requests_, schedules_;
  EventRecorder events_{time_, client_, "test"};
  CaptureHistory history_{time_, client_, {"strobe-system", "state"}};
  std::vector<std::string> keys_ = {"key"};
  KubeGatekeeper gatekeeper_{
      time_, client_, requests_, history_, {true, [this] { return keys_; }, ""}};
  KubeScheduleCluster cluster_{
      {time_, client_, requests_, events_, &gatekeeper_, [this] { return keys_; }}, schedules_};
  Json stored_, present_, patch_;
  int version_ = 7, create_code_ = 201, patch_code_ = 200;
  std::string create_answer_ = "{}", asked_;
  bool allowed_ = true;
  std::vector<Json> created_;
};

TEST_F(ScheduleClusterTest, ARunIsARequestThatTheReconcilerAdmits) {
  time_.Advance(24h * 90);
  EXPECT_EQ(RefusalOf(StartRun()), "");
  EXPECT_EQ(asked_, "jane");
  ASSERT_THAT(created_, SizeIs(1));
  EXPECT_EQ(created_[0]["spec"]["logdir"], "/logs/team");
  Json run = created_[0];
  run["metadata"]["creationTimestamp"] = FormatRfc3339(time_.WallNow());
  const ProfileRequest request = *ParseRequest(run);
  EXPECT_EQ(request.requester->username, "jane");
  EXPECT_EQ(*gatekeeper_.WhyNotAdmitted(request), "");
}

TEST_F(ScheduleClusterTest, AccessIsAskedAgainAtEachRun) {
  allowed_ = false;
  EXPECT_EQ(RefusalOf(StartRun()), "NotAllowed");
  EXPECT_THAT(created_, SizeIs(0));
  allowed_ = true;
  EXPECT_EQ(RefusalOf(StartRun()), "");
}

TEST_F(ScheduleClusterTest, ASealThatDoesNotProveTheRequesterIsRefused) {
  const auto why = [this] {
    const auto started = StartRun();
    EXPECT_EQ(RefusalOf(started), "NotAdmitted");
    return started.ok() && *started ? (*started)->message : "";
  };
  Stamp("another key");
  EXPECT_THAT(why(), HasSubstr("is not as Strobe's webhook wrote it"));
  Stamp("key", "another uid");
  EXPECT_THAT(why(), HasSubstr("belongs to another schedule"));
  time_.Advance(24h);
  Stamp("key");
  EXPECT_THAT(why(), HasSubstr("belongs to another one")) << "sealed long after it was created";
  Stamp("key", "u");
  EXPECT_EQ(RefusalOf(StartRun()), "") << "the seal of a change names the object";
  stored_["metadata"]["annotations"] = Json::object();
  schedules_.Put(std::make_shared<const Json>(stored_));
  EXPECT_THAT(why(), HasSubstr("the requester is not known"));
}

TEST_F(ScheduleClusterTest, AnOldCacheStartsNothing) {
  stored_["metadata"]["resourceVersion"] = "8";
  EXPECT_TRUE(absl::IsAborted(StartRun().status()));
  EXPECT_THAT(created_, SizeIs(0));
}

TEST_F(ScheduleClusterTest, AScheduleIsSealedAgainBeforeItsKeyIsGivenUp) {
  keys_ = {"new key", "key"};
  EXPECT_TRUE(absl::IsAborted(StartRun().status()));
  keys_ = {"new key"};
  EXPECT_EQ(RefusalOf(StartRun()), "");
  ASSERT_THAT(created_, SizeIs(1));
}

TEST_F(ScheduleClusterTest, TheSealOfAScheduleThatStartsNothingIsKeptValid) {
  const std::optional<Nanos> usual = cluster_.KeepSealed(Schedule());
  ASSERT_TRUE(usual);
  EXPECT_EQ(version_, 7) << "nothing to write";
  keys_ = {"new key", "key"};
  EXPECT_EQ(cluster_.KeepSealed(Schedule()), usual);
  EXPECT_EQ(cluster_.KeepSealed(Schedule()), usual);
  EXPECT_EQ(version_, 8) << "written once";
  keys_ = {"new key"};
  EXPECT_EQ(RefusalOf(StartRun()), "");
}

TEST_F(ScheduleClusterTest, ASealIsKeptAfterItsScheduleWasWritten) {
  const ProfileSchedule before = Schedule();
  ScheduleStatus status = before.status;
  status.skipped = 3;
  EXPECT_TRUE(cluster_.WriteStatus(before, status).ok());
  keys_ = {"new key", "key"};
  EXPECT_TRUE(cluster_.KeepSealed(before));
  EXPECT_EQ(patch_["metadata"]["resourceVersion"], "8") << "the newest, not that of `before`";
  keys_ = {"new key"};
  EXPECT_EQ(RefusalOf(StartRun()), "");
  EXPECT_EQ(Schedule().status.skipped, 3);
}

TEST_F(ScheduleClusterTest, ASealThatProvesNothingIsNotMadeAnew) {
  Stamp("another key");
  keys_ = {"new key", "key"};
  EXPECT_TRUE(cluster_.KeepSealed(Schedule()));
  EXPECT_EQ(version_, 7);
}

// All seals become old at once when the key is replaced.
TEST_F(ScheduleClusterTest, SealsAreMadeAnewAtABoundedRate) {
  const std::optional<Nanos> usual = cluster_.KeepSealed(Schedule());
  keys_ = {"new key", "key"};
  std::optional<Nanos> wait = usual;
  for (int i = 0; i < 100; ++i) {
    Stamp("key");  // Another schedule.
    if (const auto next = cluster_.KeepSealed(Schedule()); next != usual) wait = next;
  }
  EXPECT_EQ(version_ - 7, 10);
  EXPECT_LT(wait, usual) << "those that were left out look again soon";
  time_.Advance(*wait);
  EXPECT_EQ(cluster_.KeepSealed(Schedule()), usual);
  EXPECT_EQ(version_ - 7, 11);
}

TEST_F(ScheduleClusterTest, ASealThatCannotBeMadeAnewIsTriedAgain) {
  const std::optional<Nanos> usual = cluster_.KeepSealed(Schedule());
  keys_ = {"new key", "key"};
  patch_code_ = 409;
  EXPECT_LT(cluster_.KeepSealed(Schedule()), usual) << "it has changed";
  patch_code_ = 500;
  EXPECT_EQ(cluster_.KeepSealed(Schedule()), usual);
  patch_code_ = 200;
  EXPECT_EQ(cluster_.KeepSealed(Schedule()), usual);
  keys_ = {"new key"};
  EXPECT_EQ(RefusalOf(StartRun()), "");
}

TEST_F(ScheduleClusterTest, ARunThatExistsIsStarted) {
  create_code_ = 409;
  create_answer_ = R"({"reason": "AlreadyExists", "message": "it exists"})";
  present_ = {{"metadata", {{"name", "s-20241101-000000"}, {"ownerReferences", {{{"uid", "u"}}}}}}};
  EXPECT_EQ(RefusalOf(StartRun()), "");
  present_["metadata"]["ownerReferences"][0]["uid"] = "other";
  EXPECT_EQ(RefusalOf(StartRun()), "NameTaken");
}

TEST_F(ScheduleClusterTest, ANamespaceHasSoManyOpenRuns) {
  const auto put = [this](const std::string& name) {
    requests_.Put(std::make_shared<const Json>(
        Json{{"metadata",
              {{"namespace", "ml"}, {"name", name}, {"labels", {{"strobe.dev/trigger", "t"}}}}}}));
  };
  for (std::size_t i = 1; i < kMaxOpenRuns; ++i) put(StrCat(i));
  EXPECT_EQ(RefusalOf(StartRun()), "");
  put("another");
  EXPECT_EQ(RefusalOf(StartRun()), "TooManyRuns");
  put("s-20241101-000000");
  EXPECT_EQ(RefusalOf(StartRun()), "") << "it is one of them";
}

TEST_F(ScheduleClusterTest, WhatNoOtherTryCuresIsARefusal) {
  for (const int code : {403, 404, 422}) {
    create_code_ = code;
    EXPECT_EQ(RefusalOf(StartRun()), "CreateFailed") << code;
  }
  create_code_ = 500;
  EXPECT_TRUE(absl::IsUnavailable(StartRun().status()));
}

TEST_F(ScheduleClusterTest, RunsAreThoseOfTheCacheAndActiveOnesThatItDoesNotHaveYet) {
  const auto run = [](const char* name, const char* owner) {
    return Json{{"metadata",
                 {{"name", name},
                  {"namespace", "ml"},
                  {"uid", name},
                  {"ownerReferences", {{{"uid", owner}}}}}}};
  };
  requests_.Put(std::make_shared<const Json>(run("s-1", "u")));
  requests_.Put(std::make_shared<const Json>(run("other", "v")));
  ProfileSchedule schedule = Schedule();
  EXPECT_THAT(*cluster_.RunsOf(schedule), SizeIs(1));
  schedule.status.active = {{"s-1", {}}, {"s-2", {}}};
  EXPECT_THAT(*cluster_.RunsOf(schedule), SizeIs(1)) << "s-2 was deleted";
  present_ = run("s-2", "u");
  EXPECT_THAT(*cluster_.RunsOf(schedule), SizeIs(2));
}

TEST_F(ScheduleClusterTest, TheStatusThatWasWrittenIsServedBeforeTheWatchBringsIt) {
  ScheduleStatus status = Schedule().status;
  status.skipped = 3;
  EXPECT_TRUE(cluster_.WriteStatus(Schedule(), status).ok());
  EXPECT_EQ(Schedule().status.skipped, 3);
  EXPECT_EQ(Schedule().resource_version, "8");
}

}  // namespace
}  // namespace strobe::kube
