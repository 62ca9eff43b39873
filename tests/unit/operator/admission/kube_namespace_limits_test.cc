#include "operator/admission/kube_namespace_limits.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "common/base/strings.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::admission {
namespace {

using namespace std::chrono_literals;

class KubeNamespaceLimitsTest : public testing::Test {
 protected:
  KubeNamespaceLimitsTest() {
    transport_->OnUnary(
        [this](const kube::HttpRequest& request) -> absl::StatusOr<kube::HttpResponse> {
          ++asked_;
          if (const auto found = objects_.find(request.path); found != objects_.end())
            return kube::HttpResponse{200, found->second, {}};
          return kube::HttpResponse{status_, R"({"metadata": {}, "items": []})", {}};
        });
  }

  SimulatedTime time_;
  std::shared_ptr<kube::ScriptedTransport> transport_ = std::make_shared<kube::ScriptedTransport>();
  kube::Client client_{time_, transport_};
  KubeNamespaceLimits limits_{time_, client_};
  int asked_ = 0, status_ = 200;
  std::map<std::string, std::string> objects_;  // Answers by path.
};

TEST_F(KubeNamespaceLimitsTest, RemembersForAMoment) {
  EXPECT_TRUE(limits_.Read("ml", 1s, "api").ok());
  EXPECT_EQ(asked_, 4) << "limit ranges, quotas, pods and policies";
  EXPECT_TRUE(limits_.Read("ml", 1s, "api").ok());
  EXPECT_EQ(asked_, 4);
  time_.Advance(2s);
  EXPECT_TRUE(limits_.Read("ml", 1s, "api").ok());
  EXPECT_EQ(asked_, 8);
}

TEST_F(KubeNamespaceLimitsTest, RemembersAFailureToo) {
  status_ = 403;
  EXPECT_FALSE(limits_.Read("ml", 1s, "api").ok());
  EXPECT_FALSE(limits_.Read("ml", 1s, "api").ok());
  EXPECT_EQ(asked_, 1);
  status_ = 200;
  time_.Advance(5s);
  EXPECT_TRUE(limits_.Read("ml", 1s, "api").ok());
}

TEST_F(KubeNamespaceLimitsTest, PoliciesOfTheNamespaceGiveTheSidecarsUser) {
  objects_["/apis/strobe.dev/v1alpha1/profilepolicies"] = R"({"items": [
      {"metadata": {"name": "nfs"}, "spec": {"allowedLogdirs": ["/nfs"],
       "namespaceSelector": {"matchLabels": {"team": "a"}}, "sidecar": {"runAsUser": 1000}}},
      {"metadata": {"name": "all"}, "spec": {"allowedLogdirs": ["/data"]}}]})";
  objects_["/api/v1/namespaces/ml"] = R"({"metadata": {"labels": {"team": "a"}}})";
  EXPECT_EQ((*limits_.Read("ml", 1s, "api"))->sidecar_user, (kube::SidecarUser{1000, 1000}));
  objects_["/api/v1/namespaces/other"] = R"({"metadata": {}})";
  EXPECT_EQ((*limits_.Read("other", 1s, "api"))->sidecar_user, std::nullopt);
}

TEST_F(KubeNamespaceLimitsTest, PoliciesOfTheNamespaceAllowThatGpusAreAlwaysRecorded) {
  objects_["/apis/strobe.dev/v1alpha1/profilepolicies"] = R"({"items": [
      {"metadata": {"name": "watched"}, "spec": {"allowedLogdirs": ["/data"],
       "namespaceSelector": {"matchLabels": {"team": "a"}},
       "sidecar": {"flightRecorderDevices": true}}}]})";
  objects_["/api/v1/namespaces/ml"] = R"({"metadata": {"labels": {"team": "a"}}})";
  EXPECT_TRUE((*limits_.Read("ml", 1s, "api"))->flight_recorder_devices);
  EXPECT_EQ((*limits_.Read("ml", 1s, "api"))->sidecar_user, std::nullopt);
  objects_["/api/v1/namespaces/other"] = R"({"metadata": {}})";
  EXPECT_FALSE((*limits_.Read("other", 1s, "api"))->flight_recorder_devices);
}

// The pods that wait for their sidecar, as the API server lists them.
constexpr char kWaitingPods[] =
    "/api/v1/namespaces/ml/pods?resourceVersion=0&limit=500"
    "&labelSelector=strobe.dev/"
    "injected%3Dtrue&fieldSelector=status.phase%3DPending%2Cspec.nodeName%21%3D";

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
      kube::Client client(time, transport_);
      KubeNamespaceLimits limits(time, client);
      time.Advance(59s);
      EXPECT_TRUE((*limits.Read("ml", 1s, "api"))->stuck.empty()) << reason;
      time.Advance(2s);
      ASSERT_EQ((*limits.Read("ml", 1s, "api"))->stuck.size(), 1u) << reason;
      EXPECT_EQ((*limits.Read("ml", 1s, "api"))->stuck[0].name, "first");
      EXPECT_EQ((*limits.Read("ml", 1s, "api"))->stuck[0].image, "sidecar:1");
      EXPECT_EQ((*limits.Read("ml", 1s, "api"))->stuck[0].reason, reason);
    }
  }
}

TEST_F(KubeNamespaceLimitsTest, APodThatWasTakenLongAgoMayHaveComeToItsSidecarJustNow) {
  time_.Advance(10min);
  for (const char* before : {R"({"terminated": {"finishedAt": "2023-11-14T22:23:00Z"}})",
                             R"({"running": {"startedAt": "2023-11-14T22:23:00Z"}})"}) {
    objects_[kWaitingPods] = WaitingPod("ErrImagePull", kTakenAtOnce,
                                        StrCat(R"({"name": "fetch", "state": )", before, "}, "));
    EXPECT_TRUE((*limits_.Read("ml", 1s, "api"))->stuck.empty()) << before;
    time_.Advance(5s);
  }
  time_.Advance(60s);
  EXPECT_EQ((*limits_.Read("ml", 1s, "api"))->stuck.size(), 1u);
}

TEST_F(KubeNamespaceLimitsTest, WhatDoesNotPassIsNotWaitedFor) {
  objects_[kWaitingPods] = WaitingPod("InvalidImageName", kTakenAtOnce);
  EXPECT_EQ((*limits_.Read("ml", 1s, "api"))->stuck.size(), 1u);
}

// A stranger who reaches the webhooks' port can send pods of namespaces that do not exist.
TEST_F(KubeNamespaceLimitsTest, InventedNamespacesDoNotAskTheApiServerAtWill) {
  int read = 0;
  for (int i = 0; i < 1000; ++i) read += limits_.Read(StrCat("n", i), 1s, "stranger").ok();
  EXPECT_FALSE(limits_.Read(std::string(64, 'n'), 1s, "api").ok()) << "costs no memory";
  EXPECT_LE(read, 60) << "half of the burst, and a share of the rest";
  EXPECT_TRUE(limits_.Read("new", 1s, "api").ok()) << "the API server has a share of its own";
  for (int caller = 0; caller < 100; ++caller) {
    for (int i = 0; i < 10; ++i)
      read += limits_.Read(StrCat("m", caller, "-", i), 1s, StrCat(caller)).ok();
  }
  EXPECT_LE(read, 100) << "all callers together";
  time_.Advance(1s);
  for (int i = 0; i < 1000; ++i) read += limits_.Read(StrCat("o", i), 1s, "stranger").ok();
  EXPECT_LE(read, 120);
}

// Regression: the pods of a real namespace were injected without regard to its LimitRange.
TEST_F(KubeNamespaceLimitsTest, InventedNamespacesTakeNothingFromThoseThatHaveLimits) {
  objects_["/api/v1/namespaces/ml/limitranges?resourceVersion=0"] =
      R"({"items": [{"metadata": {"name": "r"},
          "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}}]})";
  ASSERT_FALSE((*limits_.Read("ml", 1s, "api"))->rules.empty());
  // The strangers come from so many addresses that those use up what callers share, and for so long
  // that the cache was flushed several times.
  for (int second = 0; second < 120; ++second) {
    time_.Advance(1s);
    for (int i = 0; i < 100; ++i)
      (void)limits_.Read(StrCat("n", second, "-", i), 1s, StrCat("stranger ", i));
    if (second % 40 != 39) continue;  // More rarely than old limits are better than nothing.
    const auto limits = limits_.Read("ml", 1s, "api");
    ASSERT_TRUE(limits.ok()) << limits.status();
    EXPECT_FALSE((*limits)->rules.empty());
  }
}

TEST_F(KubeNamespaceLimitsTest, ReadsOfOneNamespaceAtTheSameTimeAreOne) {
  Notification begun, go;
  transport_->OnUnary([&](const kube::HttpRequest&) {
    ++asked_;
    begun.Notify();
    go.WaitFor(10s);
    return kube::HttpResponse{200, R"({"metadata": {}, "items": []})", {}};
  });
  std::thread first([&] { EXPECT_TRUE(limits_.Read("ml", 10s, "api").ok()); });
  begun.Wait();
  std::thread second([&] { EXPECT_TRUE(limits_.Read("ml", 10s, "api").ok()); });
  EXPECT_FALSE(limits_.Read("ml", 50ms, "other").ok()) << "waits no longer than it may";
  go.Notify();
  first.join();
  second.join();
  EXPECT_EQ(asked_, 4);
}

TEST_F(KubeNamespaceLimitsTest, ACallerWhoseReadsAreSlowLeavesThreadsToAnother) {
  Notification go;
  transport_->OnUnary([&](const kube::HttpRequest&) {
    go.WaitFor(10s);
    return kube::HttpResponse{200, R"({"metadata": {}, "items": []})", {}};
  });
  std::atomic<int> refused = 0;
  std::vector<std::thread> strangers;
  for (int i = 0; i < 6; ++i)
    strangers.emplace_back(
        [&, i] { refused += limits_.Read(StrCat("n", i), 10s, "stranger").ok() ? 0 : 1; });
  while (refused < 3) std::this_thread::sleep_for(1ms);
  std::thread another([&] { EXPECT_TRUE(limits_.Read("ml", 10s, "api").ok()); });
  std::this_thread::sleep_for(20ms);
  go.Notify();
  another.join();
  for (std::thread& stranger : strangers) stranger.join();
  EXPECT_EQ(refused, 3);
}

}  // namespace
}  // namespace strobe::admission
