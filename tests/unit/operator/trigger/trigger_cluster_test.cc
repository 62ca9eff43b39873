#include "operator/trigger/trigger_cluster.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"
#include "operator/base/names.h"
#include "operator/base/requester_json.h"
#include "operator/objects/request.h"
#include "operator/trigger/trigger.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::trigger {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::SizeIs;

constexpr char kStoredTrigger[] = "/apis/strobe.dev/v1alpha1/namespaces/ml/profiletriggers/slow";

// An API server with one trigger, which jane created.
class TriggerClusterTest : public testing::Test {
 protected:
  TriggerClusterTest() {
    transport_->OnUnary([this](const kube::HttpRequest& request) { return Answer(request); });
    stored_ = kube::Json::parse(R"({
      "metadata": {"name": "slow", "namespace": "ml", "uid": "u", "resourceVersion": "7"},
      "spec": {"alerts": {"matchLabels": {"a": "b"}}, "template": {"spec": {"logdir": "/logs/x"}}}})");
    stored_["metadata"]["creationTimestamp"] = FormatRfc3339(time_.WallNow());
    stored_["metadata"]["annotations"][kube::kRequesterAnnotation] =
        kube::SealCreator(kube::CreatorKind::kTrigger, stored_, "ml",
                          kube::Requester{.username = "jane"}, time_.WallNow(), "key", "");
    triggers_.Put(std::make_shared<const kube::Json>(stored_));
  }

  absl::StatusOr<kube::HttpResponse> Answer(const kube::HttpRequest& request) {
    const auto json = [](const kube::Json& object) {
      return kube::HttpResponse{200, object.dump(), {}};
    };
    paths_.push_back(request.path);
    if (request.path.find("subjectaccessreviews") != std::string::npos)
      return json({{"status", {{"allowed", allowed_}}}});
    if (request.path == "/apis/strobe.dev/v1alpha1/profilepolicies") {
      return json(
          {{"items",
            {{{"metadata", {{"name", "all"}}}, {"spec", {{"allowedLogdirs", {"/logs"}}}}}}}});
    }
    if (request.path.starts_with(kStoredTrigger)) {
      if (request.method == "PATCH") {
        stored_.merge_patch(kube::Json::parse(request.body));
        stored_["metadata"]["resourceVersion"] = StrCat(++version_);
      }
      return json(stored_);
    }
    if (request.path.find("/profilerequests") != std::string::npos) {
      if (request.method == "POST") {
        created_.push_back(kube::Json::parse(request.body));
        if (present_.is_object() &&
            present_["metadata"]["name"] == created_.back()["metadata"]["name"])
          return kube::HttpResponse{409, R"({"reason": "AlreadyExists"})", {}};
        return kube::HttpResponse{201, "{}", {}};
      }
      return json(present_);
    }
    if (request.path.find("/pods/") != std::string::npos) {
      return kube::HttpResponse{404, "{}", {}};
    }
    return json({{"metadata", {{"labels", kube::Json::object()}}}});
  }

  TriggeredRun Run() {
    return {.name = "slow-1",
            .job = "JobSet/llm",
            .alert = "f@t",
            .alert_name = "Slow",
            .target = kube::JobRef{"", "JobSet", "llm"}};
  }
  std::string StartReason() {
    run_ = Run();
    const auto started = cluster_.StartRun(*cluster_.ReadTrigger("ml", "slow", 5s), run_, 5s);
    EXPECT_TRUE(started.ok()) << started.status();
    return started.ok() && *started ? (*started)->reason : "";
  }

  // A request that says that it is a run of the trigger, sealed for `creator` unless that is empty.
  kube::Json Stored(const std::string& creator) {
    kube::Json run = RunToJson(*cluster_.GetTrigger("ml/slow"), Run());
    run["metadata"]["creationTimestamp"] = FormatRfc3339(time_.WallNow());
    run["metadata"]["annotations"][kube::kRequesterAnnotation] = kube::SealRequester(
        run, "ml", kube::Requester{.username = "jane"}, time_.WallNow(), "key", creator);
    return run;
  }

  SimulatedTime time_;
  const std::shared_ptr<kube::ScriptedTransport> transport_ =
      std::make_shared<kube::ScriptedTransport>();
  kube::Client client_{time_, transport_};
  kube::ObjectCache requests_, triggers_;
  kube::EventRecorder events_{time_, client_, "test"};
  access::CaptureHistory history_{time_, client_, {"strobe-system", "state"}};
  std::vector<std::string> keys_ = {"key"};
  access::KubeGatekeeper gatekeeper_{
      time_, client_, requests_, history_, {true, [this] { return keys_; }, ""}};
  KubeTriggerCluster cluster_{
      {time_, client_, requests_, events_, &gatekeeper_, [this] { return keys_; }}, triggers_};
  kube::Json stored_, present_;
  int version_ = 7;
  TriggeredRun run_;
  bool allowed_ = true;
  std::vector<kube::Json> created_;
  std::vector<std::string> paths_;
};

TEST_F(TriggerClusterTest, ARunIsARequestThatTheReconcilerAdmits) {
  time_.Advance(24h * 90);
  EXPECT_EQ(StartReason(), "");
  ASSERT_THAT(created_, SizeIs(1));
  kube::Json run = created_[0];
  run["metadata"]["creationTimestamp"] = FormatRfc3339(time_.WallNow());
  const objects::ProfileRequest request = *objects::ParseRequest(run);
  EXPECT_EQ(request.requester->username, "jane");
  EXPECT_EQ(request.target.job->name, "llm");
  EXPECT_EQ(*gatekeeper_.WhyNotAdmitted(request), "");
  allowed_ = false;
  EXPECT_EQ(StartReason(), "NotAllowed") << "asked again at each run";
}

TEST_F(TriggerClusterTest, ASealThatDoesNotProveTheRequesterIsRefused) {
  stored_["spec"]["alerts"]["matchLabels"] = {{"a", "other"}};
  EXPECT_EQ(StartReason(), "NotAdmitted");
  EXPECT_THAT(created_, SizeIs(0));
}

TEST_F(TriggerClusterTest, ATriggerIsSealedAgainBeforeItsKeyIsGivenUp) {
  keys_ = {"new key", "key"};
  EXPECT_EQ(StartReason(), "");
  keys_ = {"new key"};
  EXPECT_EQ(StartReason(), "");
}

TEST_F(TriggerClusterTest, TheSealOfATriggerThatHearsNothingIsKeptValid) {
  keys_ = {"new key", "key"};
  EXPECT_TRUE(cluster_.KeepSealed(*cluster_.GetTrigger("ml/slow")));
  EXPECT_EQ(version_, 8);
  keys_ = {"new key"};
  EXPECT_EQ(StartReason(), "");
}

TEST_F(TriggerClusterTest, ARunThatExistsIsStarted) {
  present_ = Stored("u");
  EXPECT_EQ(StartReason(), "");
  EXPECT_EQ(run_.name, "slow-1");
  EXPECT_THAT(created_, SizeIs(1));
}

// Regression: whoever may create requests could keep a trigger from starting any.
TEST_F(TriggerClusterTest, WhoeverTakesTheNameOfARunTakesNothingElse) {
  present_ = Stored("u");
  present_["metadata"]["annotations"][kube::kTriggeredJobAnnotation] = "JobSet/other";
  std::vector<kube::Json> taken = {present_, Stored(""), Stored("v")};
  for (const kube::Json& present : taken) {
    created_.clear();
    present_ = present;
    EXPECT_EQ(StartReason(), "") << "or the hashes of two jobs are the same";
    ASSERT_THAT(created_, SizeIs(2));
    EXPECT_EQ(created_[1]["metadata"]["name"], run_.name);
    EXPECT_NE(run_.name, "slow-1");
    EXPECT_EQ(NumberOfTriggeredRun(run_.name), 1);
  }
}

TEST_F(TriggerClusterTest, RunsAreReadFromTheServerByTheirJob) {
  present_ = {{"items", {Stored("u")}}};
  const auto runs = cluster_.ReadRuns("ml", "JobSet/llm", 5s);
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_THAT(*runs, SizeIs(1));
  EXPECT_EQ(runs->front().job, "JobSet/llm");
  EXPECT_EQ(runs->front().trigger_uid, "u");
  EXPECT_THAT(paths_.back(), HasSubstr(job::JobHash("JobSet/llm")));
}

// Regression: requests with a trigger's labels used up the cool-down and the budgets of a job.
TEST_F(TriggerClusterTest, OnlyWhatTheOperatorSealedIsARunOfATrigger) {
  present_ = {{"items", {Stored(""), Stored("another")}}};
  present_["items"][0]["metadata"]["name"] = "of-bob";
  const auto runs = cluster_.ReadRuns("ml", "JobSet/llm", 5s);
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_THAT(*runs, SizeIs(1));
  EXPECT_EQ(runs->front().trigger_uid, "another") << "whatever its owner reference says";
  for (const kube::Json& run : present_["items"])
    requests_.Put(std::make_shared<const kube::Json>(run));
  EXPECT_THAT(cluster_.RunsOf(*cluster_.GetTrigger("ml/slow")), SizeIs(0));
  requests_.Put(std::make_shared<const kube::Json>(Stored("u")));
  EXPECT_THAT(cluster_.RunsOf(*cluster_.GetTrigger("ml/slow")), SizeIs(1));
}

TEST_F(TriggerClusterTest, ThePodOfAnAlertIsNoPartOfAPath) {
  EXPECT_TRUE(absl::IsNotFound(cluster_.ReadPod("ml", "../../secrets/x?a=b", 5s).status()));
  EXPECT_THAT(paths_.back(), HasSubstr("/namespaces/ml/pods/..%2F..%2Fsecrets%2Fx%3Fa%3Db"));
}

TEST_F(TriggerClusterTest, TheStatusThatWasWrittenIsServedBeforeTheWatchBringsIt) {
  TriggerStatus status;
  status.taken = 3;
  EXPECT_TRUE(cluster_.WriteStatus(*cluster_.GetTrigger("ml/slow"), status).ok());
  EXPECT_EQ(cluster_.GetTrigger("ml/slow")->status.taken, 3);
}

}  // namespace
}  // namespace strobe::trigger
