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

// The pods that wait for their sidecar, as the API server lists them.
constexpr char kWaitingPods[] =
    "/api/v1/namespaces/ml/pods?resourceVersion=0&labelSelector=strobe.dev/injected%3Dtrue"
    "&fieldSelector=status.phase%3DPending%2Cspec.nodeName%21%3D";

// A pod whose sidecar waits. SimulatedTime begins at 2023-11-14T22:13:20Z.
std::string WaitingPod(const std::string& reason, const std::string& status,
                       const std::string& others = "") {
  return StrCat(
      R"({"items": [{"metadata": {"name": "first", "creationTimestamp": "2023-11-14T22:13:20Z"},)"
      R"( "spec": {"initContainers": [{"name": "strobe-sidecar", "image": "sidecar:1"}]},)"
      R"( "status": {)",
      status, R"("initContainerStatuses": [)", others,
      R"({"name": "strobe-sidecar", "started": false, "state": {"waiting": {"reason": ")", reason,
      R"("}}}]}}]})");
}
constexpr char kTakenAtOnce[] = R"("startTime": "2023-11-14T22:13:20Z", )";

TEST_F(KubeNamespaceLimitsTest, APullThatFailsForAMomentStopsNothing) {
  for (const char* reason : {"ErrImagePull", "ImagePullBackOff"}) {
    // Without a time of the kubelet's, that of the creation counts.
    for (const char* taken : {kTakenAtOnce, ""}) {
      objects_[kWaitingPods] = WaitingPod(reason, taken);
      SimulatedTime time;
      Client client(time, transport_);
      KubeNamespaceLimits limits(time, client);
      time.Advance(59s);
      EXPECT_TRUE((*limits.Read("ml", 1s))->stuck.empty()) << reason;
      time.Advance(2s);
      ASSERT_EQ((*limits.Read("ml", 1s))->stuck.size(), 1u) << reason;
      EXPECT_EQ((*limits.Read("ml", 1s))->stuck[0].name, "first");
      EXPECT_EQ((*limits.Read("ml", 1s))->stuck[0].image, "sidecar:1");
      EXPECT_EQ((*limits.Read("ml", 1s))->stuck[0].reason, reason);
    }
  }
}

TEST_F(KubeNamespaceLimitsTest, APodThatWasTakenLongAgoMayHaveComeToItsSidecarJustNow) {
  time_.Advance(10min);
  for (const char* before : {R"({"terminated": {"finishedAt": "2023-11-14T22:23:00Z"}})",
                             R"({"running": {"startedAt": "2023-11-14T22:23:00Z"}})"}) {
    objects_[kWaitingPods] = WaitingPod("ErrImagePull", kTakenAtOnce,
                                        StrCat(R"({"name": "fetch", "state": )", before, "}, "));
    EXPECT_TRUE((*limits_.Read("ml", 1s))->stuck.empty()) << before;
    time_.Advance(5s);
  }
  time_.Advance(60s);
  EXPECT_EQ((*limits_.Read("ml", 1s))->stuck.size(), 1u);
}

TEST_F(KubeNamespaceLimitsTest, WhatDoesNotPassIsNotWaitedFor) {
  objects_[kWaitingPods] = WaitingPod("InvalidImageName", kTakenAtOnce);
  EXPECT_EQ((*limits_.Read("ml", 1s))->stuck.size(), 1u);
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
