#include "operator/schedule/schedule_cluster.h"

#include <gmock/gmock.h>

#include <set>

#include "common/base/strings.h"
#include "operator/base/names.h"
#include "operator/base/namespace_bounds.h"
#include "operator/base/requester_json.h"
#include "operator/objects/request.h"
#include "operator/schedule/schedule.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::schedule {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr char kStoredSchedule[] = "/apis/strobe.dev/v1alpha1/namespaces/ml/profileschedules/s";

// An API server with one schedule, which jane created.
class ScheduleClusterTest : public testing::Test {
 protected:
  ScheduleClusterTest() {
    transport_->OnUnary([this](const kube::HttpRequest& request) { return Answer(request); });
    stored_ = kube::Json::parse(R"({
      "metadata": {"name": "s", "namespace": "ml", "uid": "u", "resourceVersion": "7"},
      "spec": {"schedule": "@hourly", "template": {"spec": {"target": {"pods": ["p"]}}}}})");
    stored_["metadata"]["creationTimestamp"] = FormatRfc3339(time_.WallNow());
    Stamp("key");
  }

  void Stamp(const std::string& key, const std::string& uid = "") {
    stored_["metadata"]["annotations"][kube::kRequesterAnnotation] =
        kube::SealCreator(kube::CreatorKind::kSchedule, stored_, "ml",
                          kube::Requester{.username = "jane"}, time_.WallNow(), key, uid);
    schedules_.Put(std::make_shared<const kube::Json>(stored_));
  }

  absl::StatusOr<kube::HttpResponse> Answer(const kube::HttpRequest& request) {
    const auto json = [](const kube::Json& object) {
      return kube::HttpResponse{200, object.dump(), {}};
    };
    if (request.path.find("subjectaccessreviews") != std::string::npos) {
      asked_ = kube::Json::parse(request.body)["spec"]["user"];
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
        if (patch_code_ != 200) return kube::HttpResponse{patch_code_, "{}", {}};
        patch_ = kube::Json::parse(request.body);
        stored_.merge_patch(patch_);
        stored_["metadata"]["resourceVersion"] = StrCat(++version_);
      }
      return json(stored_);
    }
    if (request.path.find("/profilerequests") != std::string::npos) {
      if (request.method == "POST") {
        created_.push_back(kube::Json::parse(request.body));
        if (present_.is_object() &&
            present_["metadata"]["name"] == created_.back()["metadata"]["name"])
          return kube::HttpResponse{
              409, R"({"reason": "AlreadyExists", "message": "it exists"})", {}};
        return kube::HttpResponse{create_code_, "{}", {}};
      }
      if (request.method == "PATCH") {
        patches_.push_back(kube::Json::parse(request.body));
        return json(kube::Json::object());
      }
      return present_.is_null() ? kube::HttpResponse{404, "{}", {}} : json(present_);
    }
    if (request.path.find("webhookconfigurations") != std::string::npos)
      return json({{"metadata", {{"creationTimestamp", FormatRfc3339(webhooks_since_)}}}});
    return json({{"metadata", {{"labels", kube::Json::object()}}}});
  }

  ProfileSchedule Schedule() { return *cluster_.GetSchedule("ml/s"); }
  std::string RefusalOf(const absl::StatusOr<std::optional<kube::RunRefusal>>& started) {
    EXPECT_TRUE(started.ok()) << started.status();
    return started.ok() && *started ? (*started)->reason : "";
  }
  absl::StatusOr<std::optional<kube::RunRefusal>> StartRun() {
    due_ = {time_.WallNow(), "s-20241101-000000", 0};
    return cluster_.StartRun(Schedule(), due_);
  }
  // A request that says that it is a run of the schedule; sealed with `key` for `creator`, unless
  // that is empty, as if `requester` had created it.
  kube::Json Run(const std::string& name, const std::string& creator,
                 const std::string& key = "key", const std::string& requester = "jane") {
    kube::Json run = {{"metadata",
                       {{"name", name},
                        {"namespace", "ml"},
                        {"uid", name},
                        {"resourceVersion", "3"},
                        {"creationTimestamp", FormatRfc3339(time_.WallNow())},
                        {"ownerReferences", {{{"uid", "u"}}}}}},
                      {"spec", {{"logdir", "/logs"}}}};
    run["metadata"]["annotations"][kube::kRequesterAnnotation] = kube::SealRequester(
        run, "ml", kube::Requester{.username = requester}, time_.WallNow(), key, creator);
    return run;
  }
  std::vector<std::string> NamesOfRuns(const ProfileSchedule& schedule) {
    std::vector<std::string> names;
    const std::vector<kube::CreatedRun> runs = *cluster_.RunsOf(schedule);
    for (const kube::CreatedRun& run : runs) names.push_back(run.name);
    return names;
  }

  SimulatedTime time_;
  const std::shared_ptr<kube::ScriptedTransport> transport_ =
      std::make_shared<kube::ScriptedTransport>();
  kube::Client client_{time_, transport_};
  kube::ObjectCache requests_, schedules_;
  kube::EventRecorder events_{time_, client_, "test"};
  access::CaptureHistory history_{time_, client_, {"strobe-system", "state"}};
  std::vector<std::string> keys_ = {"key"};
  access::KubeGatekeeper gatekeeper_{
      time_, client_, requests_, history_, {true, [this] { return keys_; }, ""}};
  KubeScheduleCluster cluster_{
      {time_, client_, requests_, events_, &gatekeeper_, [this] { return keys_; }}, schedules_};
  kube::Json stored_, present_, patch_;
  int version_ = 7, create_code_ = 201, patch_code_ = 200;
  std::string asked_;
  bool allowed_ = true;
  std::vector<kube::Json> created_, patches_;
  DueRun due_;
  WallTime webhooks_since_{};
};

TEST_F(ScheduleClusterTest, ARunIsARequestThatTheReconcilerAdmits) {
  time_.Advance(24h * 90);
  EXPECT_EQ(RefusalOf(StartRun()), "");
  EXPECT_EQ(asked_, "jane");
  ASSERT_THAT(created_, SizeIs(1));
  EXPECT_EQ(created_[0]["spec"]["logdir"], "/logs/team");
  kube::Json run = created_[0];
  run["metadata"]["creationTimestamp"] = FormatRfc3339(time_.WallNow());
  const objects::ProfileRequest request = *objects::ParseRequest(run);
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
  stored_["metadata"]["annotations"] = kube::Json::object();
  schedules_.Put(std::make_shared<const kube::Json>(stored_));
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
  EXPECT_EQ(cluster_.KeepSealed(Schedule()), usual);
  EXPECT_EQ(version_, 8) << "that it was admitted is written once";
  keys_ = {"new key", "key"};
  EXPECT_EQ(cluster_.KeepSealed(Schedule()), usual);
  EXPECT_EQ(cluster_.KeepSealed(Schedule()), usual);
  EXPECT_EQ(version_, 9) << "written once";
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
  EXPECT_THAT(Schedule().not_admitted, HasSubstr("is not as Strobe's webhook wrote it"));
  EXPECT_THAT(Schedule().not_admitted, HasSubstr("change what its runs do"));
}

// Regression: the webhooks' age refused all schedules and triggers after `helm uninstall` and
// `helm install`.
TEST_F(ScheduleClusterTest, ASealThatSaysItWasAdmittedStandsByItself) {
  webhooks_since_ = time_.WallNow();
  access::KubeGatekeeper gatekeeper(time_, client_, requests_, history_,
                                    {true, [this] { return keys_; }, "strobe"});
  KubeScheduleCluster cluster(
      {time_, client_, requests_, events_, &gatekeeper, [this] { return keys_; }}, schedules_);
  const auto why = [&] {
    schedules_.Put(std::make_shared<const kube::Json>(stored_));
    access::KubeGatekeeper next(time_, client_, requests_, history_,
                                {true, [this] { return keys_; }, "strobe"});
    return *next.WhyNotAdmitted(*ParseSchedule(stored_));
  };
  EXPECT_EQ(why(), "");
  const kube::Json before = stored_;
  EXPECT_TRUE(cluster.KeepSealed(*cluster.GetSchedule("ml/s")));
  const kube::Json admitted = stored_;
  time_.Advance(1h);
  webhooks_since_ = time_.WallNow();
  EXPECT_EQ(why(), "");
  stored_["spec"]["schedule"] = "* * * * *";
  EXPECT_THAT(why(), HasSubstr("is not as Strobe's webhook wrote it"));
  stored_ = admitted;
  stored_["metadata"]["uid"] = "another";
  EXPECT_THAT(why(), HasSubstr("belongs to another schedule"));
  // What the webhooks seal does not say so, because anybody who reaches their port has it sealed.
  stored_ = before;
  EXPECT_THAT(why(), HasSubstr("before Strobe's webhooks were installed"));
  kube::Json claims = kube::Json::parse(
      stored_["metadata"]["annotations"][kube::kRequesterAnnotation].get<std::string>());
  claims["admitted"] = true;
  stored_["metadata"]["annotations"][kube::kRequesterAnnotation] = claims.dump();
  EXPECT_THAT(why(), HasSubstr("is not as Strobe's webhook wrote it"));
  // A change that the new webhooks sealed counts, and one from before them does not.
  Stamp("key", "u");
  EXPECT_EQ(why(), "");
  time_.Advance(1s);
  webhooks_since_ = time_.WallNow();
  EXPECT_THAT(why(), HasSubstr("before Strobe's webhooks were installed"));
}

// Regression: a run that was kept for longer than keys are was kept for good afterwards.
TEST_F(ScheduleClusterTest, RunsThatAreKeptAreSealedAgainBeforeTheirKeyIsGivenUp) {
  EXPECT_TRUE(cluster_.KeepSealed(Schedule()));
  requests_.Put(std::make_shared<const kube::Json>(Run("s-1", "u")));
  requests_.Put(std::make_shared<const kube::Json>(Run("s-2", "u", "new key")));
  requests_.Put(std::make_shared<const kube::Json>(Run("s-3", "")));
  EXPECT_TRUE(cluster_.KeepSealed(Schedule()));
  EXPECT_THAT(patches_, SizeIs(0)) << "no key is old";
  keys_ = {"new key", "key"};
  EXPECT_TRUE(cluster_.KeepSealed(Schedule()));
  EXPECT_TRUE(cluster_.KeepSealed(Schedule()));
  ASSERT_THAT(patches_, SizeIs(1));
  EXPECT_EQ(patches_[0]["metadata"]["resourceVersion"], "3");
  kube::Json run = Run("s-1", "u");
  run.merge_patch(patches_[0]);
  keys_ = {"new key"};
  EXPECT_EQ(kube::SealedCreatorOf(run, keys_), "u");
}

// All seals become old at once when the key is replaced.
TEST_F(ScheduleClusterTest, SealsAreMadeAnewAtABoundedRate) {
  const std::optional<Nanos> usual = cluster_.KeepSealed(Schedule());
  time_.Advance(1s);
  const int before = version_;
  keys_ = {"new key", "key"};
  std::optional<Nanos> wait = usual;
  for (int i = 0; i < 100; ++i) {
    Stamp("key");  // Another schedule.
    if (const auto next = cluster_.KeepSealed(Schedule()); next != usual) wait = next;
  }
  EXPECT_EQ(version_ - before, 10);
  EXPECT_LT(wait, usual) << "those that were left out look again soon";
  time_.Advance(*wait);
  EXPECT_EQ(cluster_.KeepSealed(Schedule()), usual);
  EXPECT_EQ(version_ - before, 11);
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
  present_ = Run("s-20241101-000000", "u");
  EXPECT_EQ(RefusalOf(StartRun()), "");
  EXPECT_EQ(due_.name, "s-20241101-000000");
  EXPECT_THAT(created_, SizeIs(1));
}

// Regression: a request with the schedule as its owner counted as started, and one without kept the
// run from being started, for as long as somebody created such requests.
TEST_F(ScheduleClusterTest, WhoeverTakesTheNameOfARunTakesNothingElse) {
  const kube::Json sealed_for_another = Run("s-20241101-000000", "v");
  const kube::Json of_bob = Run("s-20241101-000000", "", "key", "bob");
  kube::Json of_nobody = of_bob;
  of_nobody["metadata"].erase("annotations");
  std::set<std::string> names;
  for (const kube::Json& taken : {sealed_for_another, of_bob, of_nobody}) {
    created_.clear();
    present_ = taken;
    EXPECT_EQ(RefusalOf(StartRun()), "");
    ASSERT_THAT(created_, SizeIs(2));
    EXPECT_EQ(created_[1]["metadata"]["name"], due_.name);
    EXPECT_EQ(TimeOfRun(due_.name), TimeOfRun("s-20241101-000000"));
    EXPECT_EQ(ScheduleOfRun(due_.name), "s");
    kube::Json run = created_[1];
    run["metadata"]["creationTimestamp"] = FormatRfc3339(time_.WallNow());
    EXPECT_EQ(kube::SealedCreatorOf(run, keys_), "u");
    EXPECT_EQ(*gatekeeper_.WhyNotAdmitted(*objects::ParseRequest(run)), "");
    names.insert(due_.name);
  }
  EXPECT_THAT(names, SizeIs(1)) << "another try finds the run that was created";
  keys_ = {"another key", "key"};
  Stamp("another key");
  EXPECT_EQ(RefusalOf(StartRun()), "");
  EXPECT_FALSE(names.contains(due_.name)) << "it cannot be guessed";
}

TEST_F(ScheduleClusterTest, ANamespaceHasSoManyOpenRuns) {
  const auto put = [this](const std::string& name, const std::string& creator = "u") {
    kube::Json run = Run(name, creator);
    run["metadata"]["labels"]["strobe.dev/trigger"] = "t";
    run["spec"]["target"]["pods"] = {"p"};
    run["metadata"]["annotations"][kube::kRequesterAnnotation] = kube::SealRequester(
        run, "ml", kube::Requester{.username = "jane"}, time_.WallNow(), "key", creator);
    requests_.Put(std::make_shared<const kube::Json>(run));
  };
  for (std::size_t i = 1; i < kube::kMaxOpenRuns; ++i) put(StrCat(i));
  EXPECT_EQ(RefusalOf(StartRun()), "");
  for (std::size_t i = 1; i < kube::kMaxOpenRuns; ++i) put(StrCat("of-bob-", i), "");
  EXPECT_EQ(RefusalOf(StartRun()), "") << "whoever labels requests so is no schedule";
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
  requests_.Put(std::make_shared<const kube::Json>(Run("s-1", "u")));
  requests_.Put(std::make_shared<const kube::Json>(Run("other", "v")));
  ProfileSchedule schedule = Schedule();
  EXPECT_THAT(NamesOfRuns(schedule), ElementsAre("s-1"));
  schedule.status.active = {{"s-1", {}}, {"s-2", {}}};
  EXPECT_THAT(NamesOfRuns(schedule), ElementsAre("s-1")) << "s-2 was deleted";
  present_ = Run("s-2", "u");
  EXPECT_THAT(NamesOfRuns(schedule), ElementsAre("s-1", "s-2"));
  present_ = Run("s-2", "", "key", "bob");
  EXPECT_THAT(NamesOfRuns(schedule), ElementsAre("s-1")) << "s-2 is bob's now";
}

// Regression: whoever may create requests had the operator delete a schedule's runs and traces, by
// requests that have the schedule as their owner and later names.
TEST_F(ScheduleClusterTest, OnlyWhatTheOperatorSealedIsARunOfASchedule) {
  requests_.Put(std::make_shared<const kube::Json>(Run("s-1", "u")));
  requests_.Put(std::make_shared<const kube::Json>(Run("s-zzz", "", "key", "bob")));
  requests_.Put(std::make_shared<const kube::Json>(Run("s-made-up", "u", "bob's key")));
  kube::Json other = Run("s-2", "u");
  other["metadata"]["name"] = "s-copied";
  requests_.Put(std::make_shared<const kube::Json>(other));
  other = Run("s-recreated", "u");
  other["metadata"]["creationTimestamp"] = FormatRfc3339(time_.WallNow() + 1h);
  requests_.Put(std::make_shared<const kube::Json>(other));
  other = Run("s-changed", "u");
  other["spec"]["logdir"] = "/logs/elsewhere";
  requests_.Put(std::make_shared<const kube::Json>(other));
  other = Run("s-odd", "u");
  other["metadata"]["annotations"][kube::kRequesterAnnotation] = R"({"creator": 5, "seal": []})";
  requests_.Put(std::make_shared<const kube::Json>(other));
  EXPECT_THAT(NamesOfRuns(Schedule()), ElementsAre("s-1"));
  keys_ = {"new key", "key"};
  EXPECT_THAT(NamesOfRuns(Schedule()), ElementsAre("s-1")) << "keys are rotated";
}

TEST_F(ScheduleClusterTest, TheStatusThatWasWrittenIsServedBeforeTheWatchBringsIt) {
  ScheduleStatus status = Schedule().status;
  status.skipped = 3;
  EXPECT_TRUE(cluster_.WriteStatus(Schedule(), status).ok());
  EXPECT_EQ(Schedule().status.skipped, 3);
  EXPECT_EQ(Schedule().resource_version, "8");
}

}  // namespace
}  // namespace strobe::schedule
