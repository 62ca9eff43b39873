#include "operator/request/request_reconciler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "common/base/duration.h"
#include "operator/base/names.h"
#include "tests/fakes/fake_worker.h"

namespace strobe::request {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// An in-memory API server with one request, its rivals and some pods. It counts the writes to the
// request.
class FakeCluster final : public Cluster {
 public:
  absl::StatusOr<objects::ProfileRequest> GetRequest(const std::string& key) override {
    const std::string name = key.substr(key.find('/') + 1);
    if (name != request.name) {
      const auto found = rivals.find(name);
      if (found == rivals.end()) return absl::NotFoundError("gone");
      return found->second;
    }
    if (!exists) return absl::NotFoundError("gone");
    return request;
  }
  absl::StatusOr<std::vector<job::PodInfo>> ListPods(const std::string&,
                                                     const job::PodQuery& query) override {
    ++lists;
    if (!list.ok()) return list;
    std::vector<job::PodInfo> found = query.selector == "strobe.dev/injected=true" ? others : pods;
    std::erase_if(found, [&](const job::PodInfo& pod) {
      const std::vector<std::string>& names = query.names;
      return !names.empty() && std::find(names.begin(), names.end(), pod.name) == names.end();
    });
    return found;
  }
  absl::StatusOr<job::Shape> DescribeJob(const std::string&, const kube::JobRef&) override {
    return job;
  }
  absl::Status SetFinalizers(const objects::ProfileRequest& of,
                             const std::vector<std::string>& finalizers) override {
    if (of.name != request.name) {
      rivals[of.name].finalizers = finalizers;
      return absl::OkStatus();
    }
    request.finalizers = finalizers;
    if (request.deleting && finalizers.empty()) exists = false;
    return Written();
  }
  absl::Status WriteStatus(const objects::ProfileRequest& of,
                           const objects::RequestStatus& status) override {
    if (of.name != request.name) {
      rivals[of.name].status = status;
      return absl::OkStatus();
    }
    request.status = status;
    return Written();
  }
  absl::Status DeleteRequest(const objects::ProfileRequest&) override {
    Delete();
    return Written();
  }
  void RecordEvent(const objects::ProfileRequest&, bool, const std::string& reason,
                   const std::string&, const std::string&) override {
    events.push_back(reason);
  }

  // Like the API server, removes the request at once if it has no finalizers.
  void Delete() {
    request.deleting = true;
    if (request.finalizers.empty()) exists = false;
    if (changed) changed();
  }

  bool exists = true;
  objects::ProfileRequest request;
  std::map<std::string, objects::ProfileRequest> rivals;  // By name; their writes are not counted.
  std::vector<job::PodInfo> pods;
  std::vector<job::PodInfo> others{};  // With an injected sidecar, of any job.
  absl::Status list{};                 // The error that ListPods returns, if not OK.
  absl::StatusOr<job::Shape> job = job::Shape{.unknown = "nobody asked"};
  int lists = 0;
  std::vector<std::string> events;
  int writes = 0;
  std::function<void(int)> after_write;
  absl::Status answer{};          // What the next write that takes effect seems to be.
  std::function<void()> changed;  // Called by Delete, as a watch would.

 private:
  absl::Status Written() {
    ++writes;
    if (after_write) after_write(writes);
    return std::exchange(answer, absl::OkStatus());
  }
};

class FakeMetrics final : public CaptureMetrics {
 public:
  void AttemptEnded(const objects::ProfileRequest&, const capture::AttemptProgress&) override {
    ++attempts;
  }
  void CaptureEnded(const objects::ProfileRequest&, CaptureEnd end) override {
    results.emplace_back(Name(end));
  }
  void ActiveCaptures(std::size_t) override {}
  int attempts = 0;
  std::vector<std::string> results;
};

// Returns the verdicts that a test sets, and records what it was asked.
class FakeGatekeeper final : public access::Gatekeeper {
 public:
  absl::StatusOr<policy::Verdict> Judge(const objects::ProfileRequest& request,
                                        const kube::Requester& requester,
                                        const policy::EarlierCaptures& earlier, Nanos) override {
    asked.push_back(requester.username + " " + std::to_string(earlier.active));
    return Verdict(request, earlier);
  }
  std::optional<policy::Verdict> JudgeFromCache(const objects::ProfileRequest& request,
                                                const policy::EarlierCaptures& earlier) override {
    ++glances;
    const absl::StatusOr<policy::Verdict> now = Verdict(request, earlier);
    if (!now.ok() || now->kind != policy::Verdict::Kind::kWait) return std::nullopt;
    return *now;
  }
  absl::StatusOr<std::string> WhyNotAdmitted(const objects::ProfileRequest& request) override {
    if (!request.requester) return std::string("nobody knows who asked");
    return not_admitted;
  }
  absl::StatusOr<std::string> LogdirFor(const std::string&, Nanos) override {
    return absl::NotFoundError("the reconciler does not ask for it");
  }
  void CaptureEnded(const std::string& ns, WallTime) override { ended.push_back(ns); }
  absl::StatusOr<std::string> not_admitted = std::string();
  std::vector<std::string> ended;
  absl::StatusOr<policy::Verdict> verdict = policy::Verdict{};
  int most = 0;  // The maximum number of concurrent captures; 0 = no limit.
  std::vector<std::string> asked;
  int glances = 0;

 private:
  absl::StatusOr<policy::Verdict> Verdict(const objects::ProfileRequest&,
                                          const policy::EarlierCaptures& earlier) {
    if (most > 0 && earlier.active + earlier.ahead >= most)
      return policy::Verdict{policy::Verdict::Kind::kWait, "too many", {}};
    return verdict;
  }
};

class RequestReconcilerTest : public testing::Test {
 protected:
  RequestReconcilerTest() {
    cluster_.request.ns = "team";
    cluster_.request.name = "look";
    cluster_.request.uid = "uid";
    cluster_.request.created = time_.WallNow();
    cluster_.request.capture.uid = "uid";
    cluster_.request.capture.logdir = "/logs";
    cluster_.request.capture.run = "run";
    cluster_.request.capture.duration = 1s;
    for (const char* name : {"a", "b"}) {
      job::PodInfo pod;
      pod.name = name;
      pod.ip = "10.0.0.1";
      pod.phase = "Running";
      pod.sidecar_port = 9470;
      cluster_.pods.push_back(pod);
    }
    cluster_.changed = [this] { Change(); };
    Restart();
  }

  // Replaces the operator with a new process that has nothing in memory.
  void Restart() {
    reconciler_ = std::make_unique<Reconciler>(
        Reconciler::Dependencies{time_, time_, fleet_, cluster_, metrics_,
                                 [this](const std::string& key) {
                                   woken_.push_back(key);
                                   due_.insert(time_.MonoNow());
                                 },
                                 gatekeeper_, viewer_url_, reporter_});
    due_.insert(time_.MonoNow());
  }
  // Also makes jane the requester.
  void RestartGuardedBy(FakeGatekeeper& gatekeeper) {
    gatekeeper_ = &gatekeeper;
    cluster_.request.requester = kube::Requester{.username = "jane"};
    Restart();
  }
  // Reconciles as the work queue would, for `duration`.
  void Loop(Nanos duration) {
    const MonoTime end = time_.MonoNow() + duration;
    while (time_.MonoNow() < end) {
      time_.Advance(1ms);
      if (due_.empty() || *due_.begin() > time_.MonoNow()) continue;
      due_.clear();
      std::vector<std::string> keys = {"team/look"};
      for (const auto& [name, rival] : cluster_.rivals) keys.push_back("team/" + name);
      for (const std::string& key : keys) {
        const auto result = reconciler_->Reconcile(key);
        ASSERT_TRUE(result.ok()) << result.status();
        if (result->requeue_after) due_.insert(time_.MonoNow() + *result->requeue_after);
      }
    }
  }
  // Adds another request for the same pods that was created `younger` later.
  objects::ProfileRequest& AddRival(const std::string& name, Nanos younger) {
    objects::ProfileRequest rival = cluster_.request;
    rival.name = name;
    rival.uid = rival.capture.uid = name;
    rival.status = {};
    rival.created += younger;
    return cluster_.rivals[name] = rival;
  }
  void Change() { due_.insert(time_.MonoNow()); }
  const kube::Condition& Get(std::string_view type) {
    return *objects::FindCondition(cluster_.request.status, type);
  }

  SimulatedTime time_;
  FakeFleet fleet_{time_};
  FakeCluster cluster_;
  FakeMetrics metrics_;
  std::multiset<MonoTime> due_;
  std::vector<std::string> woken_;
  access::Gatekeeper* gatekeeper_ = nullptr;
  std::string viewer_url_;
  capture::Reporter* reporter_ = nullptr;
  std::unique_ptr<Reconciler> reconciler_;
};

TEST_F(RequestReconcilerTest, TheReportIsInTheStatusAndAnEvent) {
  class Reporter final : public capture::Reporter {
   public:
    void Make(capture::ReportOrder, std::function<void(capture::JobReport)> done) override {
      done({.headline = "rank 1 holds up the other"});
    }
  } reporter;
  reporter_ = &reporter;
  Restart();
  Loop(5s);
  EXPECT_EQ(cluster_.request.status.report, "rank 1 holds up the other");
  EXPECT_THAT(cluster_.events,
              testing::ElementsAre("CaptureArmed", "CaptureSucceeded", "JobReport"));
}

TEST_F(RequestReconcilerTest, CarriesARequestToItsEnd) {
  Loop(5s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue) << Get("Succeeded").message;
  EXPECT_EQ(Get("Started").status, kube::ConditionStatus::kTrue);
  EXPECT_EQ(Get("Synchronized").status, kube::ConditionStatus::kTrue);
  EXPECT_THAT(cluster_.request.finalizers, IsEmpty()) << "it can be deleted without us";
  EXPECT_THAT(cluster_.events, testing::ElementsAre("CaptureArmed", "CaptureSucceeded"));
  EXPECT_THAT(metrics_.results, testing::ElementsAre("Succeeded"));
}

TEST_F(RequestReconcilerTest, AFinishedRequestLinksToItsRun) {
  viewer_url_ = "https://viewer.test/{namespace}?run={run}";
  Restart();
  Loop(5s);
  EXPECT_EQ(cluster_.request.status.viewer, "https://viewer.test/team?run=run");
}

// Regression: the news waited for the pace of the other phases, 300 ms.
TEST_F(RequestReconcilerTest, ThatACaptureIsArmedIsToldAtOnce) {
  const MonoTime begin = time_.MonoNow();
  std::optional<Nanos> told;
  cluster_.after_write = [&](int) {
    const kube::Condition* started = objects::FindCondition(cluster_.request.status, "Started");
    if (!told && started != nullptr && started->status == kube::ConditionStatus::kTrue)
      told = time_.MonoNow() - begin;
  };
  Loop(5s);
  ASSERT_TRUE(told.has_value());
  EXPECT_LT(*told, 50ms) << "the recording itself starts later";
  EXPECT_LE(cluster_.writes, 8);
}

TEST_F(RequestReconcilerTest, TellsWhatEachWorkerDoesWhileTheyCollect) {
  cluster_.request.capture.collect_timeout = 30s;
  for (const char* name : {"a", "b"}) fleet_[name].finishes = false;
  Loop(5s);
  ASSERT_EQ(Get("Succeeded").reason, "Collecting");
  const auto is = [&](const char* name, v1::CaptureState state) {
    for (auto& [id, report] : fleet_[name].reports) report.set_state(state);
  };
  is("a", v1::COLLECTING);
  is("b", v1::UPLOADING);
  const int before = cluster_.writes;
  Loop(3s);
  EXPECT_THAT(cluster_.request.status.progress,
              testing::ElementsAre(capture::WorkersInState{"Collecting", 1, {"a"}},
                                   capture::WorkersInState{"Uploading", 1, {"b"}}));
  EXPECT_EQ(cluster_.writes, before + 1);
  // A worker that changes all the time causes a write a second.
  for (int i = 0; i < 100; ++i) is("a", i % 2 == 0 ? v1::UPLOADING : v1::COLLECTING), Loop(100ms);
  EXPECT_LE(cluster_.writes, before + 12);
  is("a", v1::DONE);
  is("b", v1::DONE);
  Loop(2s);
  EXPECT_NE(Get("Succeeded").status, kube::ConditionStatus::kUnknown);
  EXPECT_THAT(cluster_.request.status.progress, IsEmpty()) << "the outcomes tell it now";
}

// Single workers' news must not cost more of the API server's time when many captures run.
TEST_F(RequestReconcilerTest, ManyCapturesTellLessOftenWhatTheirWorkersDo) {
  constexpr int kRivals = 49;
  for (int i = 0; i < kRivals; ++i) {
    const std::string name = "rival-" + std::to_string(i);
    objects::ProfileRequest& rival = AddRival(name, 0s);
    rival.target.pods = {name};
    rival.capture.run = name;
    job::PodInfo pod = cluster_.pods[0];
    pod.name = name;
    cluster_.pods.push_back(pod);
    fleet_[name].finishes = false;
  }
  cluster_.request.target.pods = {"a", "b"};
  cluster_.request.capture.collect_timeout = 100s;
  for (auto& [name, rival] : cluster_.rivals) rival.capture.collect_timeout = 100s;
  for (const char* name : {"a", "b"}) fleet_[name].finishes = false;
  Loop(5s);
  ASSERT_EQ(reconciler_->active(), kRivals + 1u);
  const int before = cluster_.writes;
  for (int i = 0; i < 300; ++i) {
    for (auto& [id, report] : fleet_["a"].reports)
      report.set_state(i % 2 == 0 ? v1::UPLOADING : v1::COLLECTING);
    Loop(100ms);
  }
  EXPECT_GE(cluster_.writes, before + 2);
  EXPECT_LE(cluster_.writes, before + 4) << "each ten seconds: 50 captures, 200 ms each";
}

TEST_F(RequestReconcilerTest, NothingMoreIsWrittenOnceItHasFinished) {
  Loop(5s);
  const int writes = cluster_.writes;
  for (int i = 0; i < 5; ++i) Change(), Loop(1s);
  EXPECT_EQ(cluster_.writes, writes);
}

// If the operator is killed after any of its writes, the request still ends in the same way, with
// one capture per attempt.
TEST_F(RequestReconcilerTest, RecoversFromDeathAfterEachWrite) {
  for (int fatal = 1; fatal <= 8; ++fatal) {
    SCOPED_TRACE(fatal);
    const std::string uid = "uid" + std::to_string(fatal);
    cluster_.request.uid = cluster_.request.capture.uid = uid;
    cluster_.request.status = {};
    cluster_.request.finalizers.clear();
    cluster_.writes = 0;
    bool die = false;
    cluster_.after_write = [&](int write) { die = die || write == fatal; };
    Restart();
    const MonoTime end = time_.MonoNow() + 20s;
    while (time_.MonoNow() < end) {
      Loop(1ms);
      if (die) die = false, Restart();
    }
    EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue) << Get("Succeeded").message;
    EXPECT_EQ(cluster_.request.status.attempt, 1);
    for (const char* worker : {"a", "b"}) {
      int captures = 0;
      for (const auto& plan : fleet_[worker].plans)
        captures += plan.capture_id() == uid + "-1" ? 1 : 0;
      EXPECT_EQ(captures, 1);
    }
  }
}

TEST_F(RequestReconcilerTest, TriesAgainUnderANewRunAndSaysWhen) {
  fleet_["b"].refusal = v1::BUSY;
  Loop(1s);
  EXPECT_EQ(Get("Succeeded").reason, "Retrying");
  EXPECT_TRUE(cluster_.request.status.retry_time.has_value());
  fleet_["b"].refusal = v1::OUTCOME_UNSPECIFIED;
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  EXPECT_EQ(cluster_.request.status.attempt, 2);
  EXPECT_THAT(cluster_.request.status.run, HasSubstr("run_attempt2"));
  EXPECT_EQ(metrics_.attempts, 2);
}

TEST_F(RequestReconcilerTest, GivesUpAfterTheLastAttempt) {
  fleet_["b"].refusal = v1::BUSY;
  Loop(30s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kFalse);
  EXPECT_EQ(Get("Succeeded").reason, "Busy");
  EXPECT_EQ(cluster_.request.status.attempt, 3);
}

TEST_F(RequestReconcilerTest, ARestartBetweenAttemptsGoesOnWithTheNext) {
  fleet_["b"].refusal = v1::BUSY;
  Loop(1s);
  ASSERT_TRUE(cluster_.request.status.retry_time.has_value());
  Restart();
  fleet_["b"].refusal = v1::OUTCOME_UNSPECIFIED;
  Loop(10s);
  EXPECT_EQ(cluster_.request.status.attempt, 2);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
}

TEST_F(RequestReconcilerTest, AClockThatWasAheadDelaysNoAttempt) {
  fleet_["b"].refusal = v1::BUSY;
  Loop(1s);
  ASSERT_TRUE(cluster_.request.status.retry_time.has_value());
  *cluster_.request.status.retry_time += 24h;
  Restart();
  fleet_["b"].refusal = v1::OUTCOME_UNSPECIFIED;
  Loop(10s);
  EXPECT_EQ(cluster_.request.status.attempt, 2);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
}

TEST_F(RequestReconcilerTest, WaitsALittleForPodsAndThenRefuses) {
  cluster_.request.capture.ready_timeout = 30s;
  const std::vector<job::PodInfo> pods = std::exchange(cluster_.pods, {});
  Loop(5s);
  EXPECT_EQ(Get("Accepted").status, kube::ConditionStatus::kFalse);
  EXPECT_EQ(Get("Accepted").reason, "NoTargets");
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kUnknown);
  cluster_.pods = pods;
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
}

TEST_F(RequestReconcilerTest, WithoutAReadyTimeoutPodsAreHardlyWaitedFor) {
  cluster_.pods.clear();
  Loop(1s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kUnknown) << "the list may lag behind";
  Loop(3s);
  EXPECT_EQ(Get("Failed").reason, "NoTargets");
}

TEST_F(RequestReconcilerTest, RefusesInTheEnd) {
  for (job::PodInfo& pod : cluster_.pods) pod.sidecar_port = 0;
  Loop(40s);
  EXPECT_EQ(Get("Failed").status, kube::ConditionStatus::kTrue);
  EXPECT_EQ(Get("Failed").reason, "SidecarMissing");
  EXPECT_THAT(Get("Failed").message, HasSubstr("strobe.dev/inject=true"));
}

TEST_F(RequestReconcilerTest, SaysWhatIsWrongWithASpecThatCannotBeCarriedOut) {
  cluster_.request.invalid = "logdir \"gs://bu cket\" has a bucket name with odd characters";
  Loop(5s);
  EXPECT_EQ(Get("Failed").reason, "InvalidSpec");
  EXPECT_THAT(Get("Failed").message, HasSubstr("bucket name"));
  EXPECT_THAT(fleet_["a"].plans, IsEmpty());
  cluster_.Delete();
  EXPECT_FALSE(cluster_.exists) << "nothing of it is left anywhere";
}

TEST_F(RequestReconcilerTest, CancelEndsALiveCapture) {
  cluster_.request.capture.delay = 60s;
  Loop(1s);
  EXPECT_EQ(Get("Succeeded").reason, "Armed");
  cluster_.request.cancel = true;
  Change();
  Loop(1s);
  EXPECT_EQ(Get("Succeeded").reason, "Cancelled");
  EXPECT_EQ(Get("Failed").status, kube::ConditionStatus::kTrue);
  EXPECT_THAT(metrics_.results, testing::ElementsAre("Cancelled"));
}

TEST_F(RequestReconcilerTest, DeletionCancelsFirstAndThenLetsGo) {
  cluster_.request.capture.delay = 60s;
  Loop(1s);
  cluster_.Delete();
  Loop(2s);
  EXPECT_FALSE(cluster_.exists);
  EXPECT_THAT(fleet_["a"].cancelled, SizeIs(1));
}

TEST_F(RequestReconcilerTest, DeletionAfterARestartCancelsWhatTheOldProcessArmed) {
  cluster_.request.capture.delay = 60s;
  Loop(1s);
  cluster_.request.deleting = true;
  Restart();
  Loop(5s);
  EXPECT_FALSE(cluster_.exists);
  EXPECT_THAT(fleet_["a"].cancelled, Contains("uid-1"));
}

TEST_F(RequestReconcilerTest, DeletesItselfWhenItsTimeIsUp) {
  cluster_.request.ttl = 10s;
  Loop(5s);
  EXPECT_TRUE(cluster_.exists);
  Loop(15s);
  EXPECT_FALSE(cluster_.exists);
}

TEST_F(RequestReconcilerTest, RequestsForTheSameWorkersTakeTurnsInTheOrderTheyCame) {
  const objects::ProfileRequest& third = AddRival("third", 2s);
  const objects::ProfileRequest& second = AddRival("another", 1s);
  Loop(500ms);
  EXPECT_EQ(objects::FindCondition(second.status, "Succeeded")->reason, "WaitingForWorkers");
  EXPECT_EQ(second.status.queue_position, 1u);
  EXPECT_EQ(objects::FindCondition(second.status, "Succeeded")->message,
            "1 capture is ahead of it on team/a; the last one before it: team/look");
  EXPECT_EQ(third.status.queue_position, 2u);
  EXPECT_EQ(objects::FindCondition(third.status, "Succeeded")->message,
            "2 captures are ahead of it on team/a; the last one before it: team/another");
  Loop(20s);
  const auto& plans = fleet_["a"].plans;
  ASSERT_THAT(plans, SizeIs(3));
  EXPECT_EQ(plans[0].capture_id(), "uid-1");
  EXPECT_EQ(plans[1].capture_id(), "another-1");
  EXPECT_EQ(plans[2].capture_id(), "third-1");
  for (std::size_t i = 1; i < plans.size(); ++i)
    EXPECT_GT(plans[i].instant_ns(), plans[i - 1].instant_ns() + plans[i - 1].duration_ns());
  EXPECT_EQ(third.status.queue_position, 0u);
  EXPECT_EQ(objects::FindCondition(third.status, "Succeeded")->status,
            kube::ConditionStatus::kTrue);
}

TEST_F(RequestReconcilerTest, WhoeverIsWithdrawnFromTheLineHoldsNobodyUp) {
  AddRival("second", 1s);
  const objects::ProfileRequest& third = AddRival("third", 2s);
  cluster_.request.capture.delay = 5s;
  Loop(1s);
  cluster_.rivals["second"].cancel = true;
  Change();
  Loop(20s);
  EXPECT_EQ(objects::FindCondition(cluster_.rivals["second"].status, "Succeeded")->reason,
            "Cancelled");
  EXPECT_EQ(objects::FindCondition(third.status, "Succeeded")->status,
            kube::ConditionStatus::kTrue);
}

TEST_F(RequestReconcilerTest, AnotherAttemptJoinsTheEndOfTheLine) {
  fleet_["b"].refusal = v1::BUSY;
  AddRival("rival", 1ms);
  Loop(1s);
  ASSERT_EQ(Get("Succeeded").reason, "Retrying");
  fleet_["b"].refusal = v1::OUTCOME_UNSPECIFIED;
  Loop(20s);
  std::vector<std::string> order;
  for (const v1::CapturePlan& plan : fleet_["a"].plans) order.push_back(plan.capture_id());
  EXPECT_THAT(order, testing::ElementsAre("uid-1", "rival-1", "uid-2", "rival-2"));
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue) << Get("Succeeded").message;
}

TEST_F(RequestReconcilerTest, ACaptureThatRunsKeepsItsTurnAfterARestart) {
  cluster_.request.capture.delay = 10s;
  Loop(1s);
  const objects::ProfileRequest& older =
      AddRival("older", -5s);  // By its time stamp it would be first.
  Restart();
  Loop(1s);
  EXPECT_EQ(objects::FindCondition(older.status, "Succeeded")->reason, "WaitingForWorkers");
  Loop(30s);
  EXPECT_EQ(objects::FindCondition(older.status, "Succeeded")->status,
            kube::ConditionStatus::kTrue);
}

TEST_F(RequestReconcilerTest, TellsWhatKubernetesKnowsOfAPodWhoseWorkerIsLost) {
  cluster_.request.capture.attempts = 1;
  fleet_["b"].dies = true;
  cluster_.pods[1].states.push_back({.name = "trainer",
                                     .restarts = 1,
                                     .end_reason = "OOMKilled",
                                     .exit_code = 137,
                                     .ended_at = time_.WallNow() + 1s});
  Loop(60s);
  EXPECT_EQ(Get("Succeeded").reason, "WorkerLost");
  EXPECT_THAT(cluster_.request.status.outcomes.at(0).message,
              HasSubstr("container trainer was OOMKilled (exit code 137)"));
}

TEST_F(RequestReconcilerTest, BeginsWhatTheGatekeeperAllows) {
  FakeGatekeeper gatekeeper;
  RestartGuardedBy(gatekeeper);
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  EXPECT_THAT(gatekeeper.asked, testing::ElementsAre("jane 0")) << "not itself";
}

TEST_F(RequestReconcilerTest, RefusesWhatIsNotAllowedAndTellsNobody) {
  FakeGatekeeper gatekeeper;
  gatekeeper.verdict = policy::Verdict{policy::Verdict::Kind::kRefused, "not there", {}};
  RestartGuardedBy(gatekeeper);
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").reason, "NotAllowed");
  EXPECT_EQ(Get("Succeeded").message, "not there");
  EXPECT_EQ(cluster_.request.status.attempt, 0);
}

TEST_F(RequestReconcilerTest, WaitsForWhatPassesByItself) {
  FakeGatekeeper gatekeeper;
  gatekeeper.verdict = policy::Verdict{policy::Verdict::Kind::kWait, "too soon", 3s};
  RestartGuardedBy(gatekeeper);
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").reason, "WaitingForPolicy");
  EXPECT_GE(gatekeeper.glances, 3);
  EXPECT_LE(gatekeeper.glances, 5);
  EXPECT_THAT(gatekeeper.asked, IsEmpty()) << "who waits costs the API server nothing";
  gatekeeper.verdict = policy::Verdict{};
  Loop(10s);
  EXPECT_THAT(gatekeeper.asked, SizeIs(1));
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
}

TEST_F(RequestReconcilerTest, RefusesARequestThatNoWebhookSaw) {
  FakeGatekeeper gatekeeper;
  gatekeeper_ = &gatekeeper;
  Restart();
  Loop(1s);
  EXPECT_EQ(Get("Succeeded").reason, "NotAdmitted");
  EXPECT_THAT(gatekeeper.asked, IsEmpty());
}

TEST_F(RequestReconcilerTest, ACaptureThatRunsIsNotJudgedAgainAfterARestart) {
  FakeGatekeeper gatekeeper;
  RestartGuardedBy(gatekeeper);
  Loop(500ms);
  ASSERT_EQ(cluster_.request.status.attempt, 1);
  gatekeeper.verdict = policy::Verdict{policy::Verdict::Kind::kRefused, "not any more", {}};
  Restart();
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  EXPECT_THAT(gatekeeper.asked, SizeIs(1));
}

TEST_F(RequestReconcilerTest, AGatekeeperThatCannotAnswerStopsEverything) {
  FakeGatekeeper gatekeeper;
  gatekeeper.verdict = absl::UnavailableError("the API server is away");
  RestartGuardedBy(gatekeeper);
  EXPECT_FALSE(reconciler_->Reconcile("team/look").ok());
  EXPECT_EQ(cluster_.request.status.attempt, 0);
}

TEST_F(RequestReconcilerTest, HoldsARequestOnlyWhileThereIsSomethingToCleanUp) {
  cluster_.request.capture.ready_timeout = 30s;
  const std::vector<job::PodInfo> pods = std::exchange(cluster_.pods, {});
  cluster_.request.finalizers = {"example.com/mine"};
  Loop(3s);
  EXPECT_THAT(cluster_.request.finalizers, testing::ElementsAre("example.com/mine"))
      << "it waits, and has left nothing anywhere";
  cluster_.pods = pods;
  cluster_.request.capture.delay = 5s;
  Loop(4s);
  ASSERT_EQ(Get("Succeeded").reason, "Armed");
  EXPECT_THAT(cluster_.request.finalizers,
              testing::ElementsAre("example.com/mine", kube::kFinalizer));
  Loop(20s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  EXPECT_THAT(cluster_.request.finalizers, testing::ElementsAre("example.com/mine"));
}

TEST_F(RequestReconcilerTest, ARunThatIsToBeReclaimedHoldsItsRequest) {
  cluster_.request.reclaim = true;
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  EXPECT_THAT(cluster_.request.finalizers, testing::ElementsAre(kube::kFinalizer));
  cluster_.Delete();
  Loop(1s);
  EXPECT_FALSE(cluster_.exists);
  ASSERT_THAT(fleet_["a"].reclaimed, SizeIs(1));
  EXPECT_EQ(fleet_["a"].reclaimed[0].capture_id(), "uid-1");
  EXPECT_EQ(fleet_["a"].reclaimed[0].run(), "run");
}

// Jobs often end before their requests are deleted.
class SeveralTargetsTest : public RequestReconcilerTest {
 protected:
  SeveralTargetsTest() {
    for (const char* role : {"prefill", "decode"}) {
      job::TargetSpec target;
      target.name = role;
      target.pods = {target.name == "prefill" ? "a" : "b"};
      cluster_.request.targets.push_back(target);
    }
  }
};

TEST_F(SeveralTargetsTest, AreOneCaptureWithOneInstant) {
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue) << Get("Succeeded").message;
  EXPECT_THAT(Get("Succeeded").message, HasSubstr("prefill: 1 of 1, decode: 1 of 1 pods Ok"));
  EXPECT_THAT(Get("Accepted").message, HasSubstr("prefill: 1/1 workers are present; decode: 1/1"));
  ASSERT_THAT(fleet_["a"].plans, SizeIs(1));
  ASSERT_THAT(fleet_["b"].plans, SizeIs(1));
  const v1::CapturePlan &prefill = fleet_["a"].plans[0], &decode = fleet_["b"].plans[0];
  EXPECT_EQ(prefill.capture_id(), decode.capture_id());
  EXPECT_EQ(prefill.instant_ns(), decode.instant_ns());
  EXPECT_EQ(prefill.worker(), "prefill.a");
  EXPECT_EQ(decode.role(), "decode");
  ASSERT_THAT(cluster_.request.status.targets, SizeIs(2));
  EXPECT_EQ(cluster_.request.status.targets[0].name, "prefill");
  EXPECT_EQ(cluster_.request.status.targets[1].ok, 1u);
  EXPECT_EQ(cluster_.request.status.targets[1].skew, "0s");
}

TEST_F(SeveralTargetsTest, EachWaitsForItsOwnPods) {
  cluster_.pods.pop_back();
  cluster_.request.capture.ready_timeout = 20s;
  Loop(3s);
  EXPECT_EQ(Get("Succeeded").reason, "NoTargets");
  EXPECT_EQ(Get("Succeeded").message, "decode: 0/1 workers are present");
  EXPECT_THAT(fleet_["a"].plans, IsEmpty());
  Loop(60s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kFalse)
      << "prefill alone is no service";
  EXPECT_THAT(fleet_["a"].plans, IsEmpty());
}

TEST_F(SeveralTargetsTest, OneThatFailsFailsTheCaptureUnlessFewerAreEnough) {
  cluster_.request.capture.attempts = 1;
  fleet_["b"].ends_as = v1::NO_HOST_EVENTS;
  Loop(20s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kFalse);
  EXPECT_THAT(Get("Succeeded").message, HasSubstr("decode: 0 of 1 pods Ok, at least 1 wanted"));
}

TEST_F(SeveralTargetsTest, APodInTwoIsRefused) {
  cluster_.request.targets[1].pods = {"a"};
  Loop(2s);
  EXPECT_EQ(Get("Succeeded").reason, "InvalidTarget");
  EXPECT_THAT(Get("Succeeded").message, HasSubstr("pod a is in both prefill and decode"));
}

TEST_F(SeveralTargetsTest, MinWorkersOfATargetIsNamedIfItIsWrong) {
  cluster_.request.targets[1].min_workers = "0%";
  Loop(2s);
  EXPECT_EQ(Get("Succeeded").reason, "InvalidMinWorkers");
  EXPECT_THAT(Get("Succeeded").message, HasSubstr("decode: minWorkers"));
}

TEST_F(SeveralTargetsTest, ACaptureUnderWayIsTakenUpByTheNextLeader) {
  cluster_.request.capture.delay = 5s;
  Loop(3s);
  ASSERT_EQ(Get("Succeeded").reason, "Armed");
  Restart();
  Loop(20s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue) << Get("Succeeded").message;
  EXPECT_THAT(fleet_["a"].plans, SizeIs(1));
  EXPECT_EQ(cluster_.request.status.attempt, 1);
}

TEST_F(SeveralTargetsTest, AreReclaimedThroughAnyOfThem) {
  cluster_.request.reclaim = true;
  Loop(10s);
  cluster_.pods.erase(cluster_.pods.begin());
  cluster_.Delete();
  Loop(2s);
  EXPECT_FALSE(cluster_.exists);
  EXPECT_THAT(fleet_["b"].reclaimed, SizeIs(1));
}

class FinishedJobTest : public RequestReconcilerTest,
                        public testing::WithParamInterface<const char*> {};

TEST_P(FinishedJobTest, IsReclaimedBySidecarsOfOtherJobsIfTheyCanSeeItsRun) {
  const std::string logdir = GetParam();
  const bool seen = logdir != "/logs";
  cluster_.request.reclaim = true;
  cluster_.request.capture.logdir = logdir;
  Loop(10s);
  ASSERT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  cluster_.others = {cluster_.pods[0]};
  cluster_.others[0].name = "other";
  cluster_.pods.clear();
  cluster_.Delete();
  Loop(1s);
  EXPECT_FALSE(cluster_.exists);
  EXPECT_THAT(fleet_["other"].reclaimed, SizeIs(seen ? 1 : 0));
  EXPECT_EQ(testing::Matches(Contains("ReclaimFailed"))(cluster_.events), !seen);
}

INSTANTIATE_TEST_SUITE_P(Logdirs, FinishedJobTest, testing::Values("s3://b/logs", "/logs"));

TEST_F(RequestReconcilerTest, ReclaimsTheAttemptsThatItBeganAndNoOther) {
  cluster_.request.reclaim = true;
  cluster_.request.capture.attempts = 2;
  fleet_["b"].refusal = v1::BUSY;
  Loop(30s);
  ASSERT_EQ(cluster_.request.status.attempt, 2);
  cluster_.Delete();
  Loop(1s);
  std::vector<std::string> captures;
  for (const v1::ReclaimRequest& reclaim : fleet_["a"].reclaimed)
    captures.push_back(reclaim.capture_id() + " " + reclaim.run());
  EXPECT_THAT(captures, testing::ElementsAre("uid-1 run", "uid-2 run_attempt2"));
}

TEST_F(RequestReconcilerTest, WhatWasNeverBegunReclaimsNothing) {
  FakeGatekeeper gatekeeper;
  gatekeeper.not_admitted = std::string("its seal is broken");
  cluster_.request.reclaim = true;
  cluster_.request.finalizers = {kube::kFinalizer};  // The user who creates the request may set it.
  RestartGuardedBy(gatekeeper);
  Loop(2s);
  EXPECT_EQ(Get("Succeeded").reason, "NotAdmitted");
  EXPECT_EQ(Get("Succeeded").message, "its seal is broken");
  EXPECT_THAT(cluster_.request.finalizers, IsEmpty());
  cluster_.request.finalizers = {kube::kFinalizer};
  cluster_.Delete();
  Loop(1s);
  EXPECT_FALSE(cluster_.exists);
  EXPECT_THAT(fleet_["a"].reclaimed, IsEmpty());
}

TEST_F(RequestReconcilerTest, ACaptureWhoseRequestVanishesIsCancelled) {
  FakeGatekeeper gatekeeper;
  RestartGuardedBy(gatekeeper);
  cluster_.request.capture.delay = 60s;
  Loop(1s);
  ASSERT_EQ(Get("Succeeded").reason, "Armed");
  cluster_.exists = false;  // Somebody removed the finalizer.
  Change();
  Loop(1s);
  EXPECT_THAT(fleet_["a"].cancelled, testing::ElementsAre("uid-1"));
  EXPECT_THAT(gatekeeper.ended, testing::ElementsAre("team"));
}

TEST_F(RequestReconcilerTest, APolicyBoundsTheTimeThatStepsTake) {
  FakeGatekeeper gatekeeper;
  gatekeeper.verdict = policy::Verdict{.max_duration = 10s};
  RestartGuardedBy(gatekeeper);
  for (const char* worker : {"a", "b"}) {
    v1::StepPace& pace = fleet_[worker].steps.emplace_back();
    pace.set_loop("train");
    pace.set_number(10);
    pace.set_began_ns(ToUnixNanos(time_.WallNow()));
    pace.set_period_ns(Nanos(100ms).count());
  }
  cluster_.request.capture.steps = capture::StepsWanted{.count = 1000};
  Loop(5s);
  EXPECT_EQ(Get("Succeeded").reason, "StepOutOfReach");
  EXPECT_THAT(Get("Succeeded").message, HasSubstr("at most 10s can be recorded"));
  // Regression: the next operator took the attempt up without the bound.
  cluster_.request.status = {};
  cluster_.request.status.attempt = 1;
  cluster_.request.finalizers = {kube::kFinalizer};
  RestartGuardedBy(gatekeeper);
  Loop(5s);
  EXPECT_EQ(Get("Succeeded").reason, "StepOutOfReach");
}

// Regression: nobody was told.
TEST_F(RequestReconcilerTest, AnEndWhoseWriteSeemedToFailIsToldOnce) {
  cluster_.after_write = [this](int) {
    const bool ended = objects::FindCondition(cluster_.request.status, "Succeeded") != nullptr &&
                       objects::IsFinished(cluster_.request.status) && metrics_.results.empty();
    if (ended) cluster_.answer = absl::UnavailableError("the answer was lost");
  };
  const MonoTime end = time_.MonoNow() + 20s;
  while (time_.MonoNow() < end) {
    time_.Advance(10ms);
    (void)reconciler_->Reconcile("team/look");
  }
  ASSERT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  EXPECT_THAT(metrics_.results, testing::ElementsAre("Succeeded"));
  EXPECT_THAT(cluster_.events, Contains("CaptureSucceeded").Times(1));
}

// Regression: a request that was deleted between two attempts left no trace in the namespace's
// history, so that the next capture had not to wait for minInterval.
TEST_F(RequestReconcilerTest, ADeletionBetweenTwoAttemptsIsTheEndOfACapture) {
  FakeGatekeeper gatekeeper;
  RestartGuardedBy(gatekeeper);
  fleet_["b"].refusal = v1::BUSY;
  Loop(1s);
  ASSERT_EQ(Get("Succeeded").reason, "Retrying");
  EXPECT_THAT(gatekeeper.ended, IsEmpty());
  cluster_.Delete();
  Loop(2s);
  EXPECT_FALSE(cluster_.exists);
  EXPECT_THAT(gatekeeper.ended, testing::ElementsAre("team"));
  EXPECT_THAT(metrics_.results, testing::ElementsAre("Cancelled"));
  EXPECT_EQ(metrics_.attempts, 1);
}

TEST_F(RequestReconcilerTest, ACancellationBetweenTwoAttemptsIsToldOnceAlsoIfADeletionFollows) {
  FakeGatekeeper gatekeeper;
  RestartGuardedBy(gatekeeper);
  fleet_["b"].refusal = v1::BUSY;
  Loop(1s);
  cluster_.request.cancel = true;
  Change();
  Loop(1s);
  ASSERT_EQ(Get("Succeeded").reason, "Cancelled");
  cluster_.Delete();
  Loop(2s);
  EXPECT_FALSE(cluster_.exists);
  EXPECT_THAT(gatekeeper.ended, testing::ElementsAre("team"));
  EXPECT_THAT(metrics_.results, testing::ElementsAre("Cancelled"));
}

TEST_F(RequestReconcilerTest, EndsAreToldBeyondTheRequestsLife) {
  FakeGatekeeper gatekeeper;
  RestartGuardedBy(gatekeeper);
  Loop(10s);
  ASSERT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  EXPECT_THAT(gatekeeper.ended, testing::ElementsAre("team"));
}

TEST_F(RequestReconcilerTest, ATimeToLiveOfAMillenniumIsNotOverAtOnce) {
  cluster_.request.ttl = *ParseDuration("9999999h");
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  EXPECT_TRUE(cluster_.exists);
}

// Regression: when the whole job was restarted, attempt 2 ended as NoTargets at once, because the
// time to wait for pods counted from the creation of the request.
TEST_F(RequestReconcilerTest, PatienceCountsFromEachAttempt) {
  cluster_.request.capture.ready_timeout = 30s;
  fleet_["b"].refusal = v1::BUSY;
  Loop(1s);
  ASSERT_EQ(Get("Succeeded").reason, "Retrying");
  cluster_.request.created -= 10min;
  cluster_.request.status.retry_time = time_.WallNow() + 60s;
  Restart();
  const std::vector<job::PodInfo> pods = std::exchange(cluster_.pods, {});
  fleet_["b"].refusal = v1::OUTCOME_UNSPECIFIED;
  Loop(80s);  // 60 s until the retry, then 20 s without a pod.
  EXPECT_EQ(Get("Succeeded").reason, "NoTargets");
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kUnknown);
  cluster_.pods = pods;
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  EXPECT_EQ(cluster_.request.status.attempt, 2);
}

TEST_F(RequestReconcilerTest, PatienceIsAtLeastReadyTimeout) {
  cluster_.request.capture.ready_timeout = 5min;
  cluster_.pods.clear();
  Loop(4min);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kUnknown);
  Loop(2min);
  EXPECT_EQ(Get("Failed").reason, "NoTargets");
}

class ExpectedWorkers : public RequestReconcilerTest {
 protected:
  ExpectedWorkers() {
    cluster_.request.target.job = kube::JobRef{"", "Job", "llm"};
    cluster_.request.capture.ready_timeout = 20s;
    cluster_.request.capture.attempts = 1;
    cluster_.job = job::Shape{.roles = {{"", 3, 1}}};
  }
  void AddPod() {
    job::PodInfo pod = cluster_.pods[0];
    pod.name = "c";
    cluster_.pods.push_back(pod);
  }
};

// Regression: a job with only 300 of its 512 pods ended as AllWorkersOk.
TEST_F(ExpectedWorkers, ThoseThatNeverComeAreCountedAsMissing) {
  Loop(15s);
  EXPECT_EQ(Get("Succeeded").reason, "WaitingForPods");
  EXPECT_THAT(Get("Succeeded").message, HasSubstr("2/3 workers are present; (missing 1): the Job"));
  EXPECT_THAT(fleet_["a"].plans, IsEmpty());
  Loop(30s);
  EXPECT_EQ(Get("Failed").reason, "WorkerMissing");
  EXPECT_EQ(Get("Failed").status, kube::ConditionStatus::kTrue);
  EXPECT_EQ(cluster_.request.status.matched, 3u);
  EXPECT_EQ(cluster_.request.status.expected, 3u);
  EXPECT_EQ(cluster_.request.status.outcomes.at(0).pod, "(missing 1)");
  EXPECT_EQ(cluster_.request.status.outcomes.at(0).cause, "WorkerMissing");
}

TEST_F(ExpectedWorkers, AreWaitedForWithinReadyTimeout) {
  Loop(15s);
  AddPod();
  Loop(20s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue) << Get("Succeeded").message;
  EXPECT_EQ(cluster_.request.status.ok, 3u);
  EXPECT_EQ(Get("Accepted").message, "3/3 workers are present");
}

TEST_F(ExpectedWorkers, EnoughOfThemAreNotWaitedFor) {
  cluster_.request.min_workers = "50%";  // Two of three workers.
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").reason, "EnoughWorkersOk");
  EXPECT_EQ(cluster_.request.status.ok, 2u);
  EXPECT_EQ(cluster_.request.status.matched, 3u);
}

TEST_F(ExpectedWorkers, TheHopelessAreNotWaitedFor) {
  cluster_.pods[0].sidecar_port = 0;
  AddPod();
  cluster_.pods[2].sidecar_port = 9470;
  Loop(5s);
  EXPECT_EQ(Get("Failed").reason, "SidecarMissing") << "no pod gets a sidecar by waiting";
}

TEST_F(ExpectedWorkers, ASuspendedJobIsWaitedForWithoutEnd) {
  cluster_.request.capture.ready_timeout = 30s;
  const std::vector<job::PodInfo> pods = std::exchange(cluster_.pods, {});
  cluster_.job->suspended = true;
  Loop(2h);
  EXPECT_EQ(Get("Succeeded").reason, "JobSuspended");
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kUnknown);
  cluster_.job->suspended = false;
  Loop(25s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kUnknown) << "patience begins now";
  cluster_.pods = pods;
  AddPod();
  Loop(20s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue) << Get("Succeeded").message;
}

TEST_F(ExpectedWorkers, AJobOfUnknownSizeIsCapturedAndSaysSo) {
  cluster_.job = job::Shape{.unknown = "the operator may not read Job team/llm"};
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  EXPECT_THAT(Get("Accepted").message,
              HasSubstr("2 workers are present; the expected number is not known: the operator "
                        "may not read Job team/llm"));
}

TEST_F(ExpectedWorkers, AJobThatCannotBeReadAtPresentIsTriedAgainForAWhile) {
  cluster_.job = absl::UnavailableError("the webhook of its CRD is away");
  EXPECT_FALSE(reconciler_->Reconcile("team/look").ok());
  time_.Advance(40s);
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  EXPECT_THAT(Get("Accepted").message, HasSubstr("its CRD is away"));
}

TEST_F(ExpectedWorkers, MoreThanThereAreMayStillCome) {
  cluster_.request.target.job.reset();
  cluster_.request.min_workers = "3";
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").reason, "WaitingForPods");
  AddPod();
  Loop(10s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
}

// Regression: a request whose selector only the API server refuses never got a status.
TEST_F(RequestReconcilerTest, AListThatIsRefusedForItsSelectorRefusesTheRequest) {
  cluster_.list = absl::InvalidArgumentError("unable to parse requirement");
  Loop(5s);
  EXPECT_EQ(Get("Failed").reason, "InvalidTarget");
  EXPECT_THAT(Get("Failed").message, HasSubstr("unable to parse requirement"));
}

TEST_F(RequestReconcilerTest, SaysThatItMayNotListPods) {
  cluster_.list = absl::PermissionDeniedError("pods is forbidden");
  Loop(5s);
  EXPECT_EQ(Get("Succeeded").reason, "CannotListPods");
  cluster_.list = absl::OkStatus();
  Loop(60s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
}

// Regression: 1,000 waiting requests caused three API calls each, every two seconds.
TEST_F(RequestReconcilerTest, ManyWhoWaitForPolicyAreWokenOneByOne) {
  FakeGatekeeper gatekeeper;
  gatekeeper.most = 1;
  RestartGuardedBy(gatekeeper);
  cluster_.request.capture.delay = 5s;
  for (int i = 0; i < 20; ++i) AddRival("r" + std::to_string(100 + i), std::chrono::seconds(1 + i));
  Loop(1s);
  ASSERT_EQ(Get("Succeeded").reason, "Armed");
  EXPECT_EQ(objects::FindCondition(cluster_.rivals["r110"].status, "Succeeded")->reason,
            "WaitingForPolicy");
  const std::size_t asked = gatekeeper.asked.size();
  woken_.clear();
  Loop(8s);
  EXPECT_EQ(gatekeeper.asked.size(), asked + 1) << "of those who wait one was judged";
  EXPECT_EQ(std::count(woken_.begin(), woken_.end(), "team/r110"), 0);
  EXPECT_GE(std::count(woken_.begin(), woken_.end(), "team/r100"), 1);
  EXPECT_GE(cluster_.rivals["r100"].status.attempt, 1) << "the one that waited longest";
  EXPECT_EQ(cluster_.rivals["r101"].status.attempt, 0);
}

TEST_F(RequestReconcilerTest, WhoWaitsForPodsIsNotJudgedAtEachLook) {
  FakeGatekeeper gatekeeper;
  RestartGuardedBy(gatekeeper);
  const std::vector<job::PodInfo> pods = std::exchange(cluster_.pods, {});
  cluster_.request.capture.ready_timeout = 10min;
  Loop(5min);
  EXPECT_GE(cluster_.lists, 50);
  EXPECT_THAT(gatekeeper.asked, SizeIs(1));
  cluster_.pods = pods;
  Loop(20s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  EXPECT_THAT(gatekeeper.asked, SizeIs(2)) << "once more, right before it begins";
}

TEST_F(RequestReconcilerTest, WhoeverLosesItsRightWhileItWaitsIsRefused) {
  FakeGatekeeper gatekeeper;
  RestartGuardedBy(gatekeeper);
  const std::vector<job::PodInfo> pods = std::exchange(cluster_.pods, {});
  cluster_.request.capture.ready_timeout = 10min;
  Loop(5min);
  gatekeeper.verdict = policy::Verdict{policy::Verdict::Kind::kRefused, "not any more", {}};
  cluster_.pods = pods;
  Loop(20s);
  EXPECT_EQ(Get("Failed").reason, "NotAllowed");
  EXPECT_THAT(fleet_["a"].plans, IsEmpty());
}

class DeletionTest : public RequestReconcilerTest {
 protected:
  // The operator has just started and does not know the capture yet.
  void DeleteWhileTheApiServerIsAway() {
    cluster_.request.deleting = true;
    cluster_.request.deleted = time_.WallNow();
    cluster_.list = absl::UnavailableError("away");
    Restart();
    EXPECT_FALSE(reconciler_->Reconcile("team/look").ok());
  }
};

// Regression: the deletion abandoned a capture that it could not find because the API server was
// briefly unavailable.
TEST_F(DeletionTest, DeletionInsistsOnFindingTheCaptureAgain) {
  cluster_.request.capture.delay = 60s;
  Loop(1s);
  DeleteWhileTheApiServerIsAway();
  EXPECT_TRUE(cluster_.exists);
  EXPECT_THAT(cluster_.request.finalizers, Contains(kube::kFinalizer));
  cluster_.list = absl::OkStatus();
  Loop(5s);
  EXPECT_FALSE(cluster_.exists);
  EXPECT_THAT(fleet_["a"].cancelled, Contains("uid-1"));
}

TEST_F(DeletionTest, DeletionDoesNotInsistForEver) {
  cluster_.request.capture.delay = 1h;
  Loop(1s);
  DeleteWhileTheApiServerIsAway();
  time_.Advance(6min);
  Loop(1s);
  EXPECT_FALSE(cluster_.exists);
  EXPECT_THAT(cluster_.events, Contains("CancelFailed"));
}

// Regression: 1,000 unreachable sidecars blocked a thread for 2.8 hours.
TEST_F(RequestReconcilerTest, ReclaimingHoldsNoThread) {
  cluster_.request.reclaim = true;
  Loop(5s);
  ASSERT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue);
  for (int i = 0; i < 1000; ++i) {
    job::PodInfo pod = cluster_.pods[0];
    pod.name = "gone" + std::to_string(i);
    cluster_.pods.push_back(pod);
  }
  cluster_.pods.erase(cluster_.pods.begin(), cluster_.pods.begin() + 2);
  for (const job::PodInfo& pod : cluster_.pods) fleet_[pod.name].dead = true;
  cluster_.request.deleting = true;
  cluster_.request.deleted = time_.WallNow();
  const Nanos before = time_.MonoNow().time_since_epoch();
  const auto begun = reconciler_->Reconcile("team/look");
  ASSERT_TRUE(begun.ok());
  EXPECT_TRUE(begun->requeue_after.has_value());
  EXPECT_EQ(time_.MonoNow().time_since_epoch(), before);
  EXPECT_TRUE(cluster_.exists);
  Loop(70s);
  EXPECT_FALSE(cluster_.exists) << "bounded in total";
  EXPECT_THAT(cluster_.events, Contains("ReclaimFailed"));
}

TEST_F(RequestReconcilerTest, APreflightTellsEachWorkerAndCountsNowhere) {
  FakeGatekeeper gatekeeper;
  RestartGuardedBy(gatekeeper);
  cluster_.request.capture.preflight_only = true;
  cluster_.pods[1].sidecar_port = 0;
  Loop(2s);
  EXPECT_EQ(Get("Failed").status, kube::ConditionStatus::kTrue)
      << "it does not wait for the sidecar";
  EXPECT_EQ(Get("Failed").reason, "SidecarMissing");
  EXPECT_EQ(Get("Started").reason, "PreflightOnly");
  const auto& told = cluster_.request.status.preflight;
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_EQ(told[0].cause, "SidecarMissing");
  EXPECT_EQ(told[1].cause, "Ok");
  EXPECT_NE(told[1].clock_error, "");
  EXPECT_EQ(cluster_.request.status.run, "");
  EXPECT_THAT(cluster_.events, testing::ElementsAre("PreflightFailed"));
  EXPECT_THAT(metrics_.results, IsEmpty());
  EXPECT_EQ(metrics_.attempts, 0);
  EXPECT_THAT(gatekeeper.ended, IsEmpty()) << "minInterval counts captures only";
  EXPECT_THAT(cluster_.request.finalizers, IsEmpty());
}

// Regression: a preflight was one of the captures that maxConcurrent allows.
TEST_F(RequestReconcilerTest, APreflightKeepsNoCaptureWaiting) {
  FakeGatekeeper gatekeeper;
  gatekeeper.most = 1;
  RestartGuardedBy(gatekeeper);
  fleet_["a"].dead = true;  // It is asked for some seconds.
  AddRival("capture", 1ms).requester = kube::Requester{.username = "jane"};
  cluster_.request.capture.preflight_only = true;
  Loop(1s);
  EXPECT_THAT(gatekeeper.asked, testing::ElementsAre("jane 0", "jane 0"));
}

TEST_F(RequestReconcilerTest, APreflightWithoutAnySidecarTellsAllWorkers) {
  cluster_.request.capture.preflight_only = true;
  for (job::PodInfo& pod : cluster_.pods) pod.sidecar_port = 0;
  Loop(2s);
  EXPECT_EQ(Get("Failed").status, kube::ConditionStatus::kTrue);
  EXPECT_THAT(cluster_.request.status.preflight, SizeIs(2));
}

TEST_F(RequestReconcilerTest, APreflightThatAPolicyHoldsBackSaysSo) {
  FakeGatekeeper gatekeeper;
  RestartGuardedBy(gatekeeper);
  gatekeeper.verdict = policy::Verdict{policy::Verdict::Kind::kWait, "too many", {}};
  cluster_.request.capture.preflight_only = true;
  Loop(1s);
  EXPECT_EQ(Get("Failed").reason, "WaitingForPolicy");
  EXPECT_THAT(Get("Failed").message, HasSubstr("a capture would have to wait: too many"));
}

TEST_F(RequestReconcilerTest, APreflightDoesNotWaitForItsTurn) {
  Loop(100ms);
  ASSERT_EQ(Get("Succeeded").status, kube::ConditionStatus::kUnknown);
  objects::ProfileRequest& rival = AddRival("check", 1s);
  rival.capture.preflight_only = true;
  fleet_["a"].holder = fleet_["b"].holder = "uid-1";
  Loop(500ms);
  const objects::RequestStatus& status = cluster_.rivals["check"].status;
  ASSERT_NE(objects::FindCondition(status, "Failed"), nullptr);
  EXPECT_EQ(objects::FindCondition(status, "Failed")->reason, "Busy");
}

TEST_F(RequestReconcilerTest, EvidenceIsJudgedAndToldAndItsVerdictWithdrawn) {
  cluster_.request.capture.collects_evidence = true;
  cluster_.request.capture.duration = Nanos{0};
  const auto tell = [&](const char* name, const char* rank, const char* frame) {
    v1::ReadEvidenceResponse answer;
    for (const char* look : {".a.stacks", ".b.stacks"}) {
      v1::EvidenceFile& file = *answer.add_files();
      file.set_name(std::string(rank) + look);
      file.set_content(std::string("Thread 1 (idle): \"MainThread\"\n    ") + frame + "\n");
    }
    fleet_[name].evidence = answer;
    fleet_[name].holder = "a capture";  // Which is not waited for.
  };
  tell("a", "0", "all_reduce (/lib/torch/distributed/distributed_c10d.py:1)");
  tell("b", "1", "next (loader.py:88)");
  Loop(5s);
  EXPECT_EQ(Get("Succeeded").status, kube::ConditionStatus::kTrue) << Get("Succeeded").message;
  EXPECT_EQ(Get("Stalled").status, kube::ConditionStatus::kTrue);
  EXPECT_EQ(Get("Stalled").reason, "Host");
  EXPECT_THAT(Get("Stalled").message, HasSubstr("rank 1 (b)"));
  ASSERT_THAT(cluster_.request.status.stall.culprits, SizeIs(1));
  EXPECT_EQ(cluster_.request.status.stall.culprits[0].pod, "b");
  EXPECT_THAT(cluster_.events, testing::ElementsAre("JobStalled", "CaptureSucceeded"));
  EXPECT_EQ(metrics_.attempts, 1);
  for (const char* name : {"a", "b"}) {  // It moves again.
    fleet_[name].holder.clear();
    fleet_[name].stall.emplace();
    fleet_[name].steps.emplace_back().set_began_ns(ToUnixNanos(time_.WallNow() + 1s));
  }
  Loop(25s);
  EXPECT_EQ(Get("Stalled").status, kube::ConditionStatus::kFalse);
  EXPECT_EQ(Get("Stalled").reason, kube::kStallWithdrawn);
  EXPECT_EQ(cluster_.events.back(), "StallWithdrawn");
}

}  // namespace
}  // namespace strobe::request
