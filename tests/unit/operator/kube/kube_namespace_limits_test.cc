#include "operator/kube/kube_namespace_limits.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::kube {
namespace {

using namespace std::chrono_literals;

class KubeNamespaceLimitsTest : public testing::Test {
 protected:
  KubeNamespaceLimitsTest() {
    transport_->OnUnary([this](const HttpRequest& request) -> absl::StatusOr<HttpResponse> {
      ++asked_;
      if (const auto found = objects_.find(request.path); found != objects_.end())
        return HttpResponse{200, found->second, {}};
      return HttpResponse{status_, R"({"metadata": {}, "items": []})", {}};
    });
  }

  SimulatedTime time_;
  std::shared_ptr<ScriptedTransport> transport_ = std::make_shared<ScriptedTransport>();
  Client client_{time_, transport_};
  KubeNamespaceLimits limits_{time_, client_};
  int asked_ = 0, status_ = 200;
  std::map<std::string, std::string> objects_;  // Answers by path.
};

TEST_F(KubeNamespaceLimitsTest, RemembersForAMoment) {
  EXPECT_TRUE(limits_.Read("ml", 1s).ok());
  EXPECT_EQ(asked_, 4) << "limit ranges, quotas, pods and policies";
  EXPECT_TRUE(limits_.Read("ml", 1s).ok());
  EXPECT_EQ(asked_, 4);
  time_.Advance(2s);
  EXPECT_TRUE(limits_.Read("ml", 1s).ok());
  EXPECT_EQ(asked_, 8);
}

TEST_F(KubeNamespaceLimitsTest, RemembersAFailureToo) {
  status_ = 403;
  EXPECT_FALSE(limits_.Read("ml", 1s).ok());
  EXPECT_FALSE(limits_.Read("ml", 1s).ok());
  EXPECT_EQ(asked_, 1);
  status_ = 200;
  time_.Advance(5s);
  EXPECT_TRUE(limits_.Read("ml", 1s).ok());
}

TEST_F(KubeNamespaceLimitsTest, PoliciesOfTheNamespaceGiveTheSidecarsUser) {
  objects_["/apis/strobe.dev/v1alpha1/profilepolicies"] = R"({"items": [
      {"metadata": {"name": "nfs"}, "spec": {"allowedLogdirs": ["/nfs"],
       "namespaceSelector": {"matchLabels": {"team": "a"}}, "sidecar": {"runAsUser": 1000}}},
      {"metadata": {"name": "all"}, "spec": {"allowedLogdirs": ["/data"]}}]})";
  objects_["/api/v1/namespaces/ml"] = R"({"metadata": {"labels": {"team": "a"}}})";
  EXPECT_EQ((*limits_.Read("ml", 1s))->sidecar_user, (SidecarUser{1000, 1000}));
  objects_["/api/v1/namespaces/other"] = R"({"metadata": {}})";
  EXPECT_EQ((*limits_.Read("other", 1s))->sidecar_user, std::nullopt);
}

TEST_F(KubeNamespaceLimitsTest, PoliciesOfTheNamespaceAllowThatGpusAreAlwaysRecorded) {
  objects_["/apis/strobe.dev/v1alpha1/profilepolicies"] = R"({"items": [
      {"metadata": {"name": "watched"}, "spec": {"allowedLogdirs": ["/data"],
       "namespaceSelector": {"matchLabels": {"team": "a"}},
       "sidecar": {"flightRecorderDevices": true}}}]})";
  objects_["/api/v1/namespaces/ml"] = R"({"metadata": {"labels": {"team": "a"}}})";
  EXPECT_TRUE((*limits_.Read("ml", 1s))->flight_recorder_devices);
  EXPECT_EQ((*limits_.Read("ml", 1s))->sidecar_user, std::nullopt);
  objects_["/api/v1/namespaces/other"] = R"({"metadata": {}})";
  EXPECT_FALSE((*limits_.Read("other", 1s))->flight_recorder_devices);
}

// A stranger who reaches the webhooks' port can send pods of namespaces that do not exist.
TEST_F(KubeNamespaceLimitsTest, InventedNamespacesDoNotAskTheApiServerAtWill) {
  int read = 0;
  for (int i = 0; i < 1000; ++i) read += limits_.Read(StrCat("n", i), 1s).ok();
  EXPECT_EQ(read, 100);
  time_.Advance(1s);
  for (int i = 0; i < 1000; ++i) read += limits_.Read(StrCat("m", i), 1s).ok();
  EXPECT_EQ(read, 120);
}

}  // namespace
}  // namespace strobe::kube
