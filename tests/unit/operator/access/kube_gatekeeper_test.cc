#include "operator/access/kube_gatekeeper.h"

#include <gmock/gmock.h>

#include "operator/base/names.h"
#include "operator/base/namespace_bounds.h"
#include "operator/base/requester_json.h"
#include "operator/objects/request.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::access {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kConfigMap[] = "/api/v1/namespaces/strobe-system/configmaps/state";

// An API server in which jane may do everything, with one policy for all namespaces.
class KubeGatekeeperTest : public testing::Test {
 protected:
  KubeGatekeeperTest() {
    transport_->OnUnary([this](const kube::HttpRequest& request) { return Answer(request); });
  }

  absl::StatusOr<kube::HttpResponse> Answer(const kube::HttpRequest& request) {
    const auto json = [](const kube::Json& object) {
      return kube::HttpResponse{200, object.dump(), {}};
    };
    if (request.path.find("subjectaccessreviews") != std::string::npos)
      return json({{"status", {{"allowed", true}}}});
    if (request.path == "/apis/strobe.dev/v1alpha1/profilepolicies")
      return json({{"items", {{{"metadata", {{"name", "all"}}}, {"spec", policy_}}}}});
    if (request.path.find("webhookconfigurations/strobe") != std::string::npos) {
      if (!webhooks_since_) return kube::HttpResponse{404, "{}", {}};
      return json({{"metadata", {{"creationTimestamp", FormatRfc3339(*webhooks_since_)}}}});
    }
    if (request.path.starts_with(kConfigMap)) {
      if (request.method == "PATCH") config_map_ = kube::Json::parse(request.body)["data"];
      return json({{"data", config_map_}});
    }
    return json({{"metadata", {{"labels", kube::Json::object()}}}});
  }

  // A stored request with the annotation from its creation by jane.
  kube::Json Stored(WallTime sealed, WallTime created, const std::string& key = "key") {
    kube::Json object = {{"metadata", {{"name", "look"}, {"namespace", "ml"}}},
                         {"spec", {{"logdir", "/logs"}, {"target", {{"pods", {"p"}}}}}}};
    object["metadata"]["annotations"][kube::kRequesterAnnotation] =
        kube::SealRequester(object, "ml", kube::Requester{.username = "jane"}, sealed, key);
    object["metadata"]["uid"] = "uid";
    object["metadata"]["creationTimestamp"] = FormatRfc3339(created);
    return object;
  }
  std::string WhyNot(const kube::Json& object) {
    const auto why = gatekeeper_.WhyNotAdmitted(*objects::ParseRequest(object));
    EXPECT_TRUE(why.ok()) << why.status();
    return *why;
  }
  policy::Verdict Judge(KubeGatekeeper& gatekeeper) {
    const objects::ProfileRequest request = *objects::ParseRequest(Stored(Now(), Now()));
    const auto verdict = gatekeeper.Judge(request, kube::Requester{.username = "jane"}, {}, 10s);
    EXPECT_TRUE(verdict.ok()) << verdict.status();
    return *verdict;
  }
  WallTime Now() { return time_.WallNow(); }
  KubeGatekeeper::Options Options() {
    return {true, [this] { return keys_; }, "strobe"};
  }

  SimulatedTime time_;
  kube::Json policy_ = {{"allowedLogdirs", {"/logs"}}};
  kube::Json config_map_ = kube::Json::object();
  std::vector<std::string> keys_ = {"key"};
  std::optional<WallTime> webhooks_since_ = time_.WallNow() - 1h;
  std::shared_ptr<kube::ScriptedTransport> transport_ = std::make_shared<kube::ScriptedTransport>();
  kube::Client client_{time_, transport_};
  kube::ObjectCache requests_;
  CaptureHistory history_{time_, client_, {"strobe-system", "state"}};
  KubeGatekeeper gatekeeper_{time_, client_, requests_, history_, Options()};
};

TEST_F(KubeGatekeeperTest, AdmitsWhatTheWebhookSealed) {
  EXPECT_THAT(WhyNot(Stored(Now(), Now())), IsEmpty());
  EXPECT_THAT(WhyNot(Stored(Now(), Now() + 2min)), IsEmpty()) << "clocks differ a little";
}

TEST_F(KubeGatekeeperTest, ARequesterThatSomebodyWroteThereIsNoRequester) {
  kube::Json forged = Stored(Now(), Now());
  for (const char* text :
       {R"({"username":"system:admin","groups":["system:masters"]})", "{}", "no JSON",
        R"({"username":"jane","sealed":"2026-01-01T00:00:00Z","seal":""})"}) {
    forged["metadata"]["annotations"][kube::kRequesterAnnotation] = text;
    EXPECT_THAT(WhyNot(forged), HasSubstr("create it again")) << text;
  }
  forged["metadata"].erase("annotations");
  EXPECT_THAT(WhyNot(forged), HasSubstr("webhook was not installed"));
  EXPECT_THAT(WhyNot(Stored(Now(), Now(), "another key")), HasSubstr("not as Strobe's webhook"));
}

TEST_F(KubeGatekeeperTest, ASealIsOfNoUseToAnotherRequest) {
  const kube::Json sealed = Stored(Now(), Now());
  const auto with = [&](const char* place, const kube::Json& value) {
    kube::Json other = sealed;
    other[kube::Json::json_pointer(place)] = value;
    return WhyNot(other);
  };
  for (const auto& [place, value] :
       std::map<const char*, kube::Json>{{"/metadata/namespace", "other"},
                                         {"/metadata/name", "other"},
                                         {"/metadata/generateName", "look-"},
                                         {"/spec/logdir", "/logs/other"},
                                         {"/spec/target/pods", {"p", "q"}},
                                         {"/spec/target/selector", {{"matchLabels", {{"a", "b"}}}}},
                                         {"/spec/targets", {{{"name", "q"}, {"pods", {"q"}}}}},
                                         {"/spec/record", "Evidence"},
                                         {"/spec/run", "of-a-colleague"},
                                         {"/spec/steps", {{"count", 900}}},
                                         {"/spec/lookBack", "10m"},
                                         {"/spec/reclaimPolicy", "Delete"}})
    EXPECT_THAT(with(place, value), HasSubstr("not as Strobe's webhook")) << place;
  // Fields that users may change, and fields that a later schema may add.
  EXPECT_THAT(with("/spec/cancel", true), IsEmpty());
  EXPECT_THAT(with("/spec/somethingNew", 5), IsEmpty());
}

TEST_F(KubeGatekeeperTest, ACopyOfAnOldRequestIsNotAdmitted) {
  EXPECT_THAT(WhyNot(Stored(Now() - 1h, Now())), HasSubstr("belongs to another one"));
  EXPECT_THAT(WhyNot(Stored(Now() + 1h, Now())), HasSubstr("belongs to another one"));
}

TEST_F(KubeGatekeeperTest, WhatIsOlderThanTheWebhooksIsNotAdmitted) {
  webhooks_since_ = Now() + 1s;
  EXPECT_THAT(WhyNot(Stored(Now(), Now())), HasSubstr("before Strobe's webhooks were installed"));
  webhooks_since_.reset();
  EXPECT_THAT(WhyNot(Stored(Now(), Now())), HasSubstr("before Strobe's webhooks were installed"));
}

TEST_F(KubeGatekeeperTest, ARequestThatIsTamperedWithWhileItWaitsIsNotAdmittedAnyMore) {
  kube::Json object = Stored(Now(), Now());
  EXPECT_THAT(WhyNot(object), IsEmpty());
  object["metadata"]["annotations"][kube::kRequesterAnnotation] = R"({"username":"system:admin"})";
  EXPECT_THAT(WhyNot(object), HasSubstr("not as Strobe's webhook"));
}

TEST_F(KubeGatekeeperTest, GroupsOfYesterdayDoNotCount) {
  const kube::Json object = Stored(Now(), Now());
  EXPECT_THAT(WhyNot(object), IsEmpty());
  time_.Advance(25h);
  EXPECT_THAT(WhyNot(object), HasSubstr("more than 24h"));
}

TEST_F(KubeGatekeeperTest, WaitingRequestsOutliveTheKeysRotation) {
  const kube::Json object = Stored(Now(), Now());
  keys_ = {"successor", "key"};
  EXPECT_THAT(WhyNot(object), IsEmpty());
}

TEST_F(KubeGatekeeperTest, MinIntervalHoldsWhenTheRequestIsGoneAndTheOperatorAnother) {
  policy_["minInterval"] = "5m";
  EXPECT_EQ(Judge(gatekeeper_).kind, policy::Verdict::Kind::kAllowed);
  gatekeeper_.CaptureEnded("ml", Now());
  EXPECT_EQ(Judge(gatekeeper_).kind, policy::Verdict::Kind::kWait);
  CaptureHistory history(time_, client_, {"strobe-system", "state"});
  KubeGatekeeper next(time_, client_, requests_, history, Options());
  EXPECT_EQ(Judge(next).kind, policy::Verdict::Kind::kWait);
  time_.Advance(6min);
  EXPECT_EQ(Judge(next).kind, policy::Verdict::Kind::kAllowed);
}

TEST_F(KubeGatekeeperTest, AnEndThatAClockWroteThatWasAheadHoldsNothingBack) {
  policy_["minInterval"] = "5m";
  EXPECT_EQ(Judge(gatekeeper_).kind, policy::Verdict::Kind::kAllowed);
  gatekeeper_.CaptureEnded("ml", Now() + 24h);
  kube::Json other = Stored(Now(), Now());
  other["metadata"]["name"] = "ended";
  other["status"] = {{"attempt", 1}, {"completionTime", FormatRfc3339(Now() + 24h)}};
  requests_.Put(std::make_shared<const kube::Json>(other));
  EXPECT_EQ(Judge(gatekeeper_).kind, policy::Verdict::Kind::kAllowed);
  CaptureHistory history(time_, client_, {"strobe-system", "state"});
  KubeGatekeeper next(time_, client_, requests_, history, Options());
  EXPECT_EQ(Judge(next).kind, policy::Verdict::Kind::kAllowed);
  next.CaptureEnded("ml", Now());
  EXPECT_EQ(Judge(next).kind, policy::Verdict::Kind::kWait) << "the true end counts";
}

TEST_F(KubeGatekeeperTest, WhereNoPolicyAsksNothingIsWrittenDown) {
  Judge(gatekeeper_);
  gatekeeper_.CaptureEnded("ml", Now());
  EXPECT_THAT(config_map_, IsEmpty());
}

TEST_F(KubeGatekeeperTest, TheHistoryIsBounded) {
  policy_["minInterval"] = "5m";
  // Only the latest end is stored: storing a thousand ends one by one would take minutes.
  for (int i = 0; i < 1499; ++i)
    history_.NoteEnd("ns" + std::to_string(i), Now() + Nanos{i}, std::nullopt);
  history_.NoteEnd("ns1499", Now() + Nanos{1499}, 1h);
  const kube::Json ends = kube::Json::parse(config_map_["last-ends.json"].get<std::string>());
  EXPECT_EQ(ends.size(), 1000u);
  EXPECT_TRUE(ends.contains("ns1499")) << "the oldest are dropped";
}

TEST_F(KubeGatekeeperTest, CapturesOfAnOperatorBeforeUsCountAsActive) {
  policy_["maxConcurrent"] = 1;
  kube::Json other = Stored(Now(), Now());
  other["metadata"]["name"] = "running";
  other["status"] = {{"attempt", 1}};
  requests_.Put(std::make_shared<const kube::Json>(other));
  EXPECT_EQ(Judge(gatekeeper_).kind, policy::Verdict::Kind::kWait);
  other["spec"]["preflightOnly"] = true;
  requests_.Put(std::make_shared<const kube::Json>(other));
  EXPECT_EQ(Judge(gatekeeper_).kind, policy::Verdict::Kind::kAllowed) << "it records nothing";
  other["spec"]["preflightOnly"] = false;
  other["status"]["completionTime"] = FormatRfc3339(Now());
  requests_.Put(std::make_shared<const kube::Json>(other));
  EXPECT_EQ(Judge(gatekeeper_).kind, policy::Verdict::Kind::kAllowed);
}

TEST_F(KubeGatekeeperTest, ANamespaceMayHaveSoManyOpenRequests) {
  for (std::size_t i = 0; i < kube::kMaxOpenRequests; ++i) {
    EXPECT_EQ(gatekeeper_.WhyNoMoreRequests("ml"), "");
    requests_.Put(std::make_shared<const kube::Json>(
        kube::Json{{"metadata", {{"namespace", "ml"}, {"name", std::to_string(i)}}}}));
  }
  EXPECT_THAT(gatekeeper_.WhyNoMoreRequests("ml"), HasSubstr("2000"));
  EXPECT_EQ(gatekeeper_.WhyNoMoreRequests("other"), "");
  requests_.Put(std::make_shared<const kube::Json>(kube::Json::parse(
      R"({"metadata": {"namespace": "ml", "name": "7"},
          "status": {"conditions": [{"type": "Succeeded", "status": "True"}]}})")));
  EXPECT_EQ(gatekeeper_.WhyNoMoreRequests("ml"), "");
}

TEST_F(KubeGatekeeperTest, TheRequestsOfANamespaceMayTakeSoMuchMemory) {
  const auto put = [this](const std::string& ns, int name, std::size_t bytes) {
    kube::Json request = {{"metadata", {{"namespace", ns}, {"name", std::to_string(name)}}},
                          {"spec", {{"run", std::string(bytes, 'x')}}}};
    requests_.Put(std::make_shared<const kube::Json>(std::move(request)));
  };
  constexpr std::size_t kMiB = 1 << 20;
  put("one", 0, 63 * kMiB);
  EXPECT_EQ(gatekeeper_.WhyNoMoreRequests("one"), "");
  put("one", 1, kMiB);
  EXPECT_THAT(gatekeeper_.WhyNoMoreRequests("one"), HasSubstr("64 MiB"));
  put("two", 0, 50 * kMiB);
  EXPECT_EQ(gatekeeper_.WhyNoMoreRequests("two"), "");
  put("two", 1, 14 * kMiB);
  put("three", 0, 40 * kMiB);
  EXPECT_THAT(gatekeeper_.WhyNoMoreRequests("three"), HasSubstr("MiB")) << "others need some too";
  EXPECT_EQ(gatekeeper_.WhyNoMoreRequests("four"), "");
}

TEST_F(KubeGatekeeperTest, SchedulesAreCountedByTheServer) {
  int more = 198;
  transport_->OnUnary([&](const kube::HttpRequest& request) -> absl::StatusOr<kube::HttpResponse> {
    EXPECT_EQ(request.path, "/apis/strobe.dev/v1alpha1/namespaces/ml/profileschedules?limit=1");
    return kube::HttpResponse{200,
                              kube::Json{{"metadata", {{"remainingItemCount", more}}},
                                         {"items", {{{"metadata", {{"name", "s"}}}}}}}
                                  .dump(),
                              {}};
  });
  EXPECT_EQ(*gatekeeper_.WhyNoMore(kube::CreatorKind::kSchedule, "ml", 1s), "");
  more = 199;
  EXPECT_THAT(*gatekeeper_.WhyNoMore(kube::CreatorKind::kSchedule, "ml", 1s), HasSubstr("200"));
}

// Many requests wait and are judged repeatedly.
class BusyGatekeeperTest : public testing::Test {
 protected:
  BusyGatekeeperTest() {
    server_->OnUnary(
        [this](const kube::HttpRequest& request) -> absl::StatusOr<kube::HttpResponse> {
          if (away_) return absl::UnavailableError("away");
          kube::Json answer = {{"metadata", {{"labels", {{"team", "ml"}}}}}};
          if (request.path.find("profilepolicies") != std::string::npos)
            answer = {{"items",
                       {{{"metadata", {{"name", "p"}}},
                         {"spec", {{"allowedLogdirs", {"/logs"}}, {"maxConcurrent", 2}}}}}}};
          if (request.path.find("subjectaccessreviews") != std::string::npos)
            answer = {{"status", {{"allowed", true}}}};
          return kube::HttpResponse{200, answer.dump(), std::nullopt};
        });
    request_.ns = "team";
    request_.capture.logdir = "/logs/x";
  }

  SimulatedTime time_;
  const std::shared_ptr<kube::ScriptedTransport> server_ =
      std::make_shared<kube::ScriptedTransport>();
  kube::Client client_{time_, server_};
  kube::ObjectCache cache_;
  CaptureHistory history_{time_, client_, {}};
  KubeGatekeeper gatekeeper_{time_, client_, cache_, history_, {}};
  objects::ProfileRequest request_;
  bool away_ = false;
};

// Regression: 1,000 waiting requests made 1,500 calls a second.
TEST_F(BusyGatekeeperTest, ManyWhoWaitShareWhatWasRead) {
  for (int i = 0; i < 1000; ++i) {
    const auto verdict = gatekeeper_.JudgeFromCache(request_, {.active = 2});
    ASSERT_TRUE(verdict.has_value());
    EXPECT_EQ(verdict->kind, policy::Verdict::Kind::kWait);
  }
  EXPECT_THAT(server_->requests(), SizeIs(2));
  request_.ns = "other";
  gatekeeper_.JudgeFromCache(request_, {.active = 2});
  EXPECT_THAT(server_->requests(), SizeIs(3)) << "the labels of each namespace";
  time_.Advance(6s);
  gatekeeper_.JudgeFromCache(request_, {.active = 2});
  EXPECT_THAT(server_->requests(), SizeIs(5));
}

TEST_F(BusyGatekeeperTest, AGlanceDecidesNothingButToWait) {
  EXPECT_FALSE(gatekeeper_.JudgeFromCache(request_, {.active = 1}).has_value());
  request_.capture.logdir = "/elsewhere";
  EXPECT_FALSE(gatekeeper_.JudgeFromCache(request_, {.active = 2}).has_value())
      << "a policy may have come meanwhile: Judge refuses";
  EXPECT_EQ(gatekeeper_.Judge(request_, {}, {}, 10s)->kind, policy::Verdict::Kind::kRefused);
}

TEST_F(BusyGatekeeperTest, AServerThatIsAwayIsNotAskedByEverybody) {
  away_ = true;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(gatekeeper_.JudgeFromCache(request_, {.active = 2}));
  EXPECT_THAT(server_->requests(), SizeIs(1));
  time_.Advance(6s);
  away_ = false;
  EXPECT_TRUE(gatekeeper_.JudgeFromCache(request_, {.active = 2}).has_value());
}

TEST_F(BusyGatekeeperTest, AJudgementHasOneDeadline) {
  server_->OnUnary([this](const kube::HttpRequest& request) -> absl::StatusOr<kube::HttpResponse> {
    time_.Advance(3s);
    if (request.path.find("subjectaccessreviews") != std::string::npos)
      return kube::HttpResponse{200, R"({"status": {"allowed": true}})", std::nullopt};
    return kube::HttpResponse{200, R"({"items": []})", std::nullopt};
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(gatekeeper_.Judge(request_, {}, {}, 4s).status()));
  ASSERT_THAT(server_->requests(), SizeIs(2));
  EXPECT_LE(server_->requests()[1].timeout, 1s);
}

}  // namespace
}  // namespace strobe::access
