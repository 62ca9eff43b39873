#include "operator/request/stall_watch.h"

#include <gmock/gmock.h>

#include "operator/objects/request.h"
#include "tests/fakes/fake_worker.h"

namespace strobe::request {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

// An API server with one request and the pods of its job.
class WatchedCluster final : public Cluster {
 public:
  absl::StatusOr<objects::ProfileRequest> GetRequest(const std::string&) override {
    return request;
  }
  absl::StatusOr<std::vector<job::PodInfo>> ListPods(const std::string&,
                                                     const job::PodQuery&) override {
    return pods;
  }
  absl::StatusOr<job::Shape> DescribeJob(const std::string&, const kube::JobRef&) override {
    return job::Shape{};
  }
  absl::Status SetFinalizers(const objects::ProfileRequest&,
                             const std::vector<std::string>&) override {
    return absl::OkStatus();
  }
  absl::Status WriteStatus(const objects::ProfileRequest&,
                           const objects::RequestStatus& status) override {
    request.status = status;
    return absl::OkStatus();
  }
  absl::Status DeleteRequest(const objects::ProfileRequest&) override { return absl::OkStatus(); }
  void RecordEvent(const objects::ProfileRequest&, bool, const std::string& reason,
                   const std::string&, const std::string&) override {
    events.push_back(reason);
  }

  objects::ProfileRequest request;
  std::vector<job::PodInfo> pods;
  std::vector<std::string> events;
};

class UncountedCaptures final : public CaptureMetrics {
 public:
  void AttemptEnded(const objects::ProfileRequest&, const capture::AttemptProgress&) override {}
  void CaptureEnded(const objects::ProfileRequest&, CaptureEnd) override {}
  void ActiveCaptures(std::size_t) override {}
};

class StallWatchTest : public testing::Test {
 protected:
  StallWatchTest() {
    objects::ProfileRequest& request = cluster_.request;
    request.ns = "team";
    request.name = "why";
    request.uid = "uid";
    request.created = time_.WallNow();
    request.capture.collects_evidence = true;
    request.status.completion_time = time_.WallNow();
    request.status.conditions = {kube::Condition{.type = "Stalled",
                                                 .status = kube::ConditionStatus::kTrue,
                                                 .reason = "Host",
                                                 .message = "rank 2 holds up 3 others",
                                                 .observed_generation = 1}};
    for (const char* name : {"a", "b"}) {
      job::PodInfo pod;
      pod.name = name;
      pod.ip = "10.0.0.1";
      pod.phase = "Running";
      pod.sidecar_port = 9470;
      cluster_.pods.push_back(pod);
      Stand(name, /*still=*/true);
    }
  }

  // A worker that moves has just made a step, by its own clock.
  void Stand(const std::string& worker, bool still) {
    FakeSidecar& sidecar = fleet_[worker];
    sidecar.stall.emplace().set_stalled(still);
    v1::StepPace& pace = sidecar.steps.emplace_back();
    pace.set_period_ns(Nanos{1s}.count());
    pace.set_began_ns(ToUnixNanos(time_.WallNow() + sidecar.offset + (still ? -5s : 1s)));
  }
  std::optional<Nanos> Look() {
    const auto look = watch_.Look("team/why", cluster_.request);
    EXPECT_TRUE(look.ok()) << look.status();
    return look.value_or(std::nullopt);
  }
  // Looks as often as it asks for, for `duration`.
  void Watch(Nanos duration) {
    for (const MonoTime end = time_.MonoNow() + duration; time_.MonoNow() < end;) {
      const std::optional<Nanos> again = Look();
      if (!again) return;
      time_.Advance(*again);
    }
  }
  const kube::Condition& Stalled() {
    return *objects::FindCondition(cluster_.request.status, "Stalled");
  }

  SimulatedTime time_;
  FakeFleet fleet_{time_};
  WatchedCluster cluster_;
  UncountedCaptures metrics_;
  std::vector<std::string> woken_;
  ReconcilerDependencies deps_{
      .clock = time_,
      .executor = time_,
      .workers = fleet_,
      .cluster = cluster_,
      .metrics = metrics_,
      .enqueue = [this](const std::string& key) { woken_.push_back(key); }};
  StallWatch watch_{deps_};
};

TEST_F(StallWatchTest, AVerdictOnAJobThatMovesAgainIsWithdrawn) {
  Watch(25s);
  EXPECT_EQ(Stalled().status, kube::ConditionStatus::kTrue);
  EXPECT_GE(fleet_["a"].checks, 2);
  woken_.clear();
  for (const char* name : {"a", "b"}) Stand(name, /*still=*/false);
  Watch(30s);
  EXPECT_EQ(Stalled().status, kube::ConditionStatus::kFalse);
  EXPECT_EQ(Stalled().reason, kube::kStallWithdrawn);
  EXPECT_THAT(cluster_.events, ElementsAre("StallWithdrawn"));
  EXPECT_FALSE(woken_.empty()) << "the answers wake the request";
  EXPECT_EQ(Look(), std::nullopt) << "there is nothing more to withdraw";
}

TEST_F(StallWatchTest, OneWorkerThatStandsStillIsEnough) {
  Stand("a", /*still=*/false);
  Watch(60s);
  EXPECT_EQ(Stalled().status, kube::ConditionStatus::kTrue);
  EXPECT_THAT(cluster_.events, IsEmpty());
}

TEST_F(StallWatchTest, AVerdictOnWhatWasRestartedHolds) {
  for (const char* name : {"a", "b"}) Stand(name, /*still=*/false);
  cluster_.pods[1].created = cluster_.request.created + 5s;
  Watch(30s);
  EXPECT_EQ(Stalled().status, kube::ConditionStatus::kFalse);
  EXPECT_EQ(Stalled().reason, kube::kStallRestarted);
  EXPECT_THAT(cluster_.events, ElementsAre("StallEnded"));
}

// They do not stand still either: by their steps nothing is known of them.
TEST_F(StallWatchTest, WorkersThatTellNoStepWithdrawNothing) {
  for (const char* name : {"a", "b"}) {
    fleet_[name].stall->set_stalled(false);
    fleet_[name].steps.clear();
  }
  Watch(StallWatch::kWatched + 60s);
  EXPECT_EQ(Stalled().status, kube::ConditionStatus::kTrue);
  EXPECT_EQ(Look(), std::nullopt) << "it is not watched for ever";
  const int checks = fleet_["a"].checks;
  EXPECT_LE(checks, 61);
}

// A sidecar calls a job still only after some seconds, and its clock may be another one.
TEST_F(StallWatchTest, AStepFromBeforeTheVerdictWithdrawsNothing) {
  fleet_["a"].offset = 1h;
  for (const char* name : {"a", "b"}) {
    fleet_[name].steps.clear();
    Stand(name, /*still=*/true);
    fleet_[name].stall->set_stalled(false);
  }
  Watch(60s);
  EXPECT_EQ(Stalled().status, kube::ConditionStatus::kTrue);
  Stand("a", /*still=*/false);
  Watch(60s);
  EXPECT_EQ(Stalled().reason, kube::kStallWithdrawn);
}

TEST_F(StallWatchTest, AJobWithoutAVerdictIsNotWatched) {
  cluster_.request.status.conditions.clear();
  EXPECT_EQ(Look(), std::nullopt);
  time_.Advance(60s);
  EXPECT_EQ(fleet_["a"].checks, 0);
}

}  // namespace
}  // namespace strobe::request
