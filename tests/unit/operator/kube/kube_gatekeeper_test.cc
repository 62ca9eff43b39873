#include "operator/kube/kube_gatekeeper.h"

#include <gmock/gmock.h>

#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::kube {
namespace {

using namespace std::chrono_literals;
using testing::SizeIs;

class KubeGatekeeperTest : public testing::Test {
 protected:
  KubeGatekeeperTest() {
    server_->OnUnary([this](const HttpRequest& request) -> absl::StatusOr<HttpResponse> {
      if (away_) return absl::UnavailableError("away");
      Json answer = {{"metadata", {{"labels", {{"team", "ml"}}}}}};
      if (request.path.find("profilepolicies") != std::string::npos)
        answer = {{"items",
                   {{{"metadata", {{"name", "p"}}},
                     {"spec", {{"allowedLogdirs", {"/logs"}}, {"maxConcurrent", 2}}}}}}};
      if (request.path.find("subjectaccessreviews") != std::string::npos)
        answer = {{"status", {{"allowed", true}}}};
      return HttpResponse{200, answer.dump(), std::nullopt};
    });
    request_.space = "team";
    request_.capture.logdir = "/logs/x";
  }

  SimulatedTime time_;
  const std::shared_ptr<ScriptedTransport> server_ = std::make_shared<ScriptedTransport>();
  Client client_{time_, server_};
  ObjectCache cache_;
  KubeGatekeeper gatekeeper_{time_, client_, cache_, true};
  ProfileRequest request_;
  bool away_ = false;
};

// 1,000 requests that waited made 1,500 calls a second.
TEST_F(KubeGatekeeperTest, ManyWhoWaitShareWhatWasRead) {
  for (int i = 0; i < 1000; ++i) {
    const auto verdict = gatekeeper_.Glance(request_, {.active = 2});
    ASSERT_TRUE(verdict.has_value());
    EXPECT_EQ(verdict->kind, PolicyVerdict::Kind::kWait);
  }
  EXPECT_THAT(server_->requests(), SizeIs(2));
  request_.space = "other";
  gatekeeper_.Glance(request_, {.active = 2});
  EXPECT_THAT(server_->requests(), SizeIs(3)) << "the labels of each namespace";
  time_.Advance(6s);
  gatekeeper_.Glance(request_, {.active = 2});
  EXPECT_THAT(server_->requests(), SizeIs(5));
}

TEST_F(KubeGatekeeperTest, AGlanceDecidesNothingButToWait) {
  EXPECT_FALSE(gatekeeper_.Glance(request_, {.active = 1}).has_value());
  request_.capture.logdir = "/elsewhere";
  EXPECT_FALSE(gatekeeper_.Glance(request_, {.active = 2}).has_value())
      << "a policy may have come meanwhile: Judge refuses";
  EXPECT_EQ(gatekeeper_.Judge(request_, {}, {}, 10s)->kind, PolicyVerdict::Kind::kRefused);
}

TEST_F(KubeGatekeeperTest, AServerThatIsAwayIsNotAskedByEverybody) {
  away_ = true;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(gatekeeper_.Glance(request_, {.active = 2}));
  EXPECT_THAT(server_->requests(), SizeIs(1));
  time_.Advance(6s);
  away_ = false;
  EXPECT_TRUE(gatekeeper_.Glance(request_, {.active = 2}).has_value());
}

TEST_F(KubeGatekeeperTest, AJudgementHasOneDeadline) {
  server_->OnUnary([this](const HttpRequest& request) -> absl::StatusOr<HttpResponse> {
    time_.Advance(3s);
    if (request.path.find("subjectaccessreviews") != std::string::npos)
      return HttpResponse{200, R"({"status": {"allowed": true}})", std::nullopt};
    return HttpResponse{200, R"({"items": []})", std::nullopt};
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(gatekeeper_.Judge(request_, {}, {}, 4s).status()));
  ASSERT_THAT(server_->requests(), SizeIs(2));
  EXPECT_LE(server_->requests()[1].timeout, 1s);
}

}  // namespace
}  // namespace strobe::kube
