#include "operator/access/automatic_runs.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "common/base/strings.h"
#include "operator/base/names.h"
#include "operator/base/requester_json.h"
#include "operator/job/target_spec.h"
#include "operator/objects/request.h"
#include "operator/schedule/schedule.h"
#include "operator/schedule/schedule_cluster.h"
#include "operator/trigger/trigger.h"
#include "operator/trigger/trigger_cluster.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::access {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// An API server with one policy, a schedule and two triggers of jane; one operator with a cache of
// its own, which the test brings up to date.
class AutomaticRunsTest : public testing::Test {
 protected:
  AutomaticRunsTest() {
    transport_->OnUnary([this](const kube::HttpRequest& request) { return Answer(request); });
    schedule_ =
        Creator(kube::CreatorKind::kSchedule, "s", R"({"interval": "5m", "template": {"spec": {
        "target": {"jobRef": {"kind": "JobSet", "name": "llm"}}, "logdir": "/logs", "duration": "2s"}}})");
    for (const char* name : {"slow", "stuck"}) {
      triggers_[name] =
          Creator(kube::CreatorKind::kTrigger, name, R"({"alerts": {"matchLabels": {"a": "b"}},
          "template": {"spec": {"logdir": "/logs", "duration": "3s"}}})");
    }
    requests_.ReplaceAll({});
  }

  kube::Json Creator(kube::CreatorKind kind, const std::string& name, const char* spec) {
    kube::Json object = {{"metadata",
                          {{"name", name},
                           {"namespace", "ml"},
                           {"uid", "uid-" + name},
                           {"resourceVersion", "7"},
                           {"creationTimestamp", FormatRfc3339(time_.WallNow())}}},
                         {"spec", kube::Json::parse(spec)}};
    object["metadata"]["annotations"][kube::kRequesterAnnotation] = kube::SealCreator(
        kind, object, "ml", kube::Requester{.username = "jane"}, time_.WallNow(), "key", "");
    return object;
  }

  absl::StatusOr<kube::HttpResponse> Answer(const kube::HttpRequest& request) {
    ++calls_;
    const auto json = [](const kube::Json& object) {
      return kube::HttpResponse{200, object.dump(), {}};
    };
    if (request.path.find("subjectaccessreviews") != std::string::npos)
      return json({{"status", {{"allowed", true}}}});
    if (request.path == "/apis/strobe.dev/v1alpha1/profilepolicies") {
      return json({{"items",
                    {{{"metadata", {{"name", "team"}}},
                      {"spec", {{"allowedLogdirs", {"/logs"}}, {"automatic", automatic_}}}}}}});
    }
    if (request.path.find("/profileschedules/") != std::string::npos) return json(schedule_);
    if (request.path.find("/profilerequests") != std::string::npos && request.method == "POST") {
      kube::Json run = kube::Json::parse(request.body);
      const std::string name = run["metadata"]["name"];
      if (stored_.contains(name))
        return kube::HttpResponse{409, R"({"reason": "AlreadyExists"})", {}};
      run["metadata"]["uid"] = "uid-of-" + name;
      run["metadata"]["creationTimestamp"] = FormatRfc3339(time_.WallNow());
      if (create_code_ == 201) stored_[name] = run;
      return kube::HttpResponse{create_code_, run.dump(), {}};
    }
    for (const auto& [name, run] : stored_)
      if (request.path.ends_with("/profilerequests/" + name)) return json(run);
    return json({{"metadata", {{"labels", kube::Json::object()}}}});
  }

  // The reason why the run is refused, or empty. `why_` has the message.
  std::string Note(const absl::StatusOr<std::optional<kube::RunRefusal>>& started) {
    if (!started.ok()) return absl::StatusCodeToString(started.status().code());
    why_ = *started ? (*started)->message : "";
    return *started ? (*started)->reason : "";
  }
  std::string StartSchedule() {
    schedules_cache_.Put(std::make_shared<const kube::Json>(schedule_));
    const schedule::ProfileSchedule schedule = *schedules_.GetSchedule("ml/s");
    schedule::DueRun due{time_.WallNow(), schedule::RunNameOf("s", time_.WallNow())};
    return Note(schedules_.StartRun(schedule, due));
  }
  std::string StartTrigger(const std::string& trigger, const std::string& job = "llm") {
    trigger::TriggeredRun run{.name = StrCat(trigger, "-", job, "-", ++number_),
                              .job = "JobSet/" + job,
                              .alert = "f@t",
                              .target = kube::JobRef{"", "JobSet", job}};
    return Note(cluster_.StartRun(*trigger::ParseTrigger(triggers_[trigger]), run, 5s));
  }
  // The run has ended.
  void End(kube::Json& run, std::uint64_t bytes = 0) {
    run["status"] = {{"attempt", 1},
                     {"bytes", bytes},
                     {"completionTime", FormatRfc3339(time_.WallNow())},
                     {"conditions", {{{"type", "Succeeded"}, {"status", "True"}}}}};
  }
  void BringAll() {
    for (const auto& [name, run] : stored_) {
      const kube::Object known = requests_.Get("ml/" + name);
      if (known == nullptr || known->contains("status") != run.contains("status"))
        requests_.Put(std::make_shared<const kube::Json>(run));
    }
  }

  SimulatedTime time_;
  const std::shared_ptr<kube::ScriptedTransport> transport_ =
      std::make_shared<kube::ScriptedTransport>();
  kube::Client client_{time_, transport_};
  kube::ObjectCache requests_, schedules_cache_, triggers_cache_;
  kube::EventRecorder events_{time_, client_, "test"};
  CaptureHistory history_{time_, client_, {"strobe-system", "state"}};
  KubeGatekeeper gatekeeper_{time_,
                             client_,
                             requests_,
                             history_,
                             {true, [] { return std::vector<std::string>{"key"}; }, ""}};
  const RunStarter::Dependencies dependencies_{
      time_,   client_,      requests_,
      events_, &gatekeeper_, [] { return std::vector<std::string>{"key"}; }};
  schedule::KubeScheduleCluster schedules_{dependencies_, schedules_cache_};
  trigger::KubeTriggerCluster cluster_{dependencies_, triggers_cache_};
  kube::Json schedule_, automatic_ = kube::Json::object();
  std::map<std::string, kube::Json> triggers_, stored_;
  int create_code_ = 201, number_ = 0, calls_ = 0;
  std::string why_;
};

TEST_F(AutomaticRunsTest, AllCreatorsOfAJobShareItsBudget) {
  automatic_ = {{"coolDown", "10m"}};
  EXPECT_EQ(StartSchedule(), "");
  EXPECT_EQ(StartTrigger("slow"), policy::kPolicyBudget) << "the watch has not brought the run yet";
  EXPECT_THAT(why_, HasSubstr("ProfilePolicy team: automatic.coolDown for JobSet/llm: s-"));
  EXPECT_EQ(StartTrigger("slow", "bert"), "") << "another job";
  BringAll();
  for (auto& [name, run] : stored_) End(run);
  BringAll();
  EXPECT_EQ(StartTrigger("stuck"), policy::kPolicyBudget);
  time_.Advance(10min);
  EXPECT_EQ(StartTrigger("stuck"), "");
  EXPECT_EQ(StartSchedule(), policy::kPolicyBudget);
}

TEST_F(AutomaticRunsTest, ABoundCostsNoCallMore) {
  EXPECT_EQ(StartTrigger("slow"), "");
  const int without = std::exchange(calls_, 0);
  automatic_ = {{"coolDown", "10m"}, {"maxConcurrent", 5}};
  EXPECT_EQ(StartTrigger("slow", "bert"), "");
  EXPECT_EQ(calls_, without);
  calls_ = 0;
  EXPECT_EQ(StartTrigger("slow", "bert"), policy::kPolicyBudget);
  EXPECT_LT(calls_, without);
}

TEST_F(AutomaticRunsTest, OneAtATimeForAllCreatorsTogether) {
  automatic_ = {{"maxConcurrent", 1}};
  EXPECT_EQ(StartTrigger("slow"), "");
  EXPECT_EQ(StartTrigger("stuck"), policy::kPolicyBudget);
  BringAll();
  EXPECT_EQ(StartSchedule(), policy::kPolicyBudget);
  EXPECT_THAT(why_, HasSubstr("slow-llm-1 is under way"));
  End(stored_.begin()->second);
  BringAll();
  EXPECT_EQ(StartSchedule(), "");
}

TEST_F(AutomaticRunsTest, ThreadsThatStartAtTheSameTimeShareItsBudget) {
  automatic_ = {{"maxConcurrent", 3}};
  const trigger::ProfileTrigger trigger = *trigger::ParseTrigger(triggers_["slow"]);
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      trigger::TriggeredRun run{.name = StrCat("slow-", i),
                                .job = "JobSet/llm",
                                .alert = "f@t",
                                .target = kube::JobRef{"", "JobSet", "llm"}};
      const auto started = cluster_.StartRun(trigger, run, 5s);
      if (started.ok() && *started && (*started)->reason == policy::kPolicyBudget) ++refused;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(stored_, SizeIs(3));
  EXPECT_EQ(refused, 13);
}

TEST_F(AutomaticRunsTest, ARunThatWasNotCreatedIsNotCounted) {
  automatic_ = {{"coolDown", "2h"}};
  create_code_ = 422;
  EXPECT_EQ(StartTrigger("slow"), "CreateFailed");
  create_code_ = 500;
  EXPECT_EQ(StartTrigger("slow"), "UNAVAILABLE");
  create_code_ = 201;
  EXPECT_EQ(StartTrigger("stuck"), policy::kPolicyBudget) << "it may have been created";
  --(--number_);
  EXPECT_EQ(StartTrigger("slow"), "") << "another try by the same name";
  stored_.clear();  // Somebody deletes it before the watch brings it.
  time_.Advance(1h);
  EXPECT_EQ(StartTrigger("stuck"), policy::kPolicyBudget);
  time_.Advance(1s);
  EXPECT_EQ(StartTrigger("slow"), "");
}

TEST_F(AutomaticRunsTest, NothingIsStartedBeforeTheRequestsAreKnown) {
  kube::ObjectCache empty;
  KubeGatekeeper gatekeeper(time_, client_, empty, history_,
                            {true, [] { return std::vector<std::string>{"key"}; }, ""});
  RunStarter::Dependencies dependencies = dependencies_;
  dependencies.gatekeeper = &gatekeeper;
  trigger::KubeTriggerCluster early(
      {time_, client_, empty, events_, &gatekeeper, dependencies.seal_keys}, triggers_cache_);
  trigger::TriggeredRun run{
      .name = "r", .job = "JobSet/llm", .target = kube::JobRef{"", "JobSet", "llm"}};
  const trigger::ProfileTrigger trigger = *trigger::ParseTrigger(triggers_["slow"]);
  automatic_ = {{"coolDown", "10m"}};
  EXPECT_TRUE(absl::IsUnavailable(early.StartRun(trigger, run, 5s).status()));
  EXPECT_THAT(stored_, IsEmpty());
  automatic_ = kube::Json::object();
  EXPECT_TRUE(early.StartRun(trigger, run, 5s).ok()) << "no bound needs them";
}

TEST_F(AutomaticRunsTest, RunsThatAreCountedLiveForADay) {
  schedule_["spec"]["template"]["spec"]["ttlAfterFinished"] = "5m";
  schedule_["metadata"]["annotations"][kube::kRequesterAnnotation] =
      kube::SealCreator(kube::CreatorKind::kSchedule, schedule_, "ml",
                        kube::Requester{.username = "jane"}, time_.WallNow(), "key", "");
  automatic_ = {{"maxConcurrent", 9}};
  EXPECT_EQ(StartSchedule(), "");
  EXPECT_EQ(stored_.rbegin()->second["spec"]["ttlAfterFinished"], "5m");
  time_.Advance(5min);
  automatic_ = {{"capturesPerDay", 9}};
  EXPECT_EQ(StartSchedule(), "");
  EXPECT_EQ(stored_.rbegin()->second["spec"]["ttlAfterFinished"], "24h");
}

TEST_F(AutomaticRunsTest, WhatUsersAskForIsNotCounted) {
  automatic_ = {{"capturesPerDay", 1}, {"maxConcurrent", 1}};
  kube::Json own = {
      {"metadata", {{"name", "mine"}, {"namespace", "ml"}}},
      {"spec",
       {{"logdir", "/logs"}, {"target", {{"jobRef", {{"kind", "JobSet"}, {"name", "llm"}}}}}}}};
  own["metadata"]["creationTimestamp"] = FormatRfc3339(time_.WallNow());
  requests_.Put(std::make_shared<const kube::Json>(own));
  // Regression: a request with such a label was counted.
  own["metadata"]["name"] = "labelled";
  own["metadata"]["labels"][kube::kTriggerLabel] = "slow";
  own["metadata"]["annotations"][kube::kRequesterAnnotation] =
      kube::SealRequester(own, "ml", kube::Requester{.username = "bob"}, time_.WallNow(), "key");
  requests_.Put(std::make_shared<const kube::Json>(own));
  EXPECT_EQ(StartTrigger("slow"), "");
}

// A run whose usual name is taken is still bounded by its policies.
TEST_F(AutomaticRunsTest, ATakenNameIsNoWayAroundABudget) {
  automatic_ = {{"coolDown", "10m"}};
  EXPECT_EQ(StartTrigger("slow"), "");
  BringAll();
  stored_["slow-llm-2"] = {{"metadata", {{"name", "slow-llm-2"}, {"namespace", "ml"}}}};
  requests_.Put(std::make_shared<const kube::Json>(stored_["slow-llm-2"]));
  EXPECT_EQ(StartTrigger("slow"), policy::kPolicyBudget);
  time_.Advance(10min);
  --number_;
  EXPECT_EQ(StartTrigger("slow"), "");
  EXPECT_THAT(stored_, SizeIs(3));
  EXPECT_EQ(StartTrigger("stuck"), policy::kPolicyBudget) << "and it counts";
}

// Under the sanitizers, six hours reach all code, and the whole time takes minutes.
#ifdef STROBE_SANITIZED
constexpr int kPart = 6;
#else
constexpr int kPart = 1;
#endif

// A day and a half in which a schedule and two triggers want far more than they may, the watch
// lags, and runs end some time later. What was created is checked here by its own arithmetic.
class SimulatedDayTest : public AutomaticRunsTest {
 protected:
  struct Life {
    WallTime created, ended;
    Nanos recorded;
    std::uint64_t bytes;
  };

  void Run(unsigned seed, Nanos length = 36h / kPart) {
    std::mt19937 random(seed);
    const auto up_to = [&](unsigned most) { return static_cast<int>(random() % most); };
    for (const WallTime end = time_.WallNow() + length; time_.WallNow() < end;) {
      time_.Advance(1s * (1 + up_to(240)));
      for (auto& [name, life] : lives_) {
        if (life.ended != WallTime{} || up_to(3) > 0) continue;
        life.ended = kube::WholeSeconds(time_.WallNow());
        life.bytes = 1000u * static_cast<unsigned>(1 + up_to(9));
        End(stored_[name], life.bytes);
      }
      // The watch may be broken for half an hour.
      if (up_to(4) == 0 || time_.WallNow() - brought_ > 30min) {
        BringAll();
        brought_ = time_.WallNow();
      }
      for (int wishes = 1 + up_to(2); wishes > 0; --wishes) {
        const int who = up_to(3);
        const std::string refused = who == 0   ? StartSchedule()
                                    : who == 1 ? StartTrigger("slow")
                                               : StartTrigger("stuck");
        refused_ += refused.empty() ? 0 : 1;
        for (const auto& [name, run] : stored_) {
          const Nanos recorded = name.starts_with("s-") ? 2s : 3s;
          lives_.emplace(name, Life{kube::WholeSeconds(time_.WallNow()), {}, recorded, 0});
        }
      }
    }
  }
  // The lives that began in the 24 hours before each one.
  template <typename Check>
  void EachDay(const Check& check) const {
    for (const auto& [name, life] : lives_) {
      std::vector<Life> day;
      for (const auto& [other_name, other] : lives_) {
        if (other_name != name && other.created <= life.created &&
            other.created + 24h > life.created)
          day.push_back(other);
      }
      check(name, life, day);
    }
  }

  std::map<std::string, Life> lives_;
  WallTime brought_{};
  int refused_ = 0;
};

TEST_F(SimulatedDayTest, CoolDownAndCapturesPerDayHold) {
  automatic_ = {{"coolDown", "10m"}, {"capturesPerDay", 40}};
  Run(1);
  EachDay([](const std::string& name, const Life& life, const std::vector<Life>& day) {
    EXPECT_LT(day.size(), 40u) << name;
    for (const Life& other : day) EXPECT_GE(life.created - other.created, 10min - 1s) << name;
  });
  EXPECT_GT(lives_.size(), 60u / kPart) << "what may be had is had";
  EXPECT_GT(refused_, 1000 / kPart);
}

TEST_F(SimulatedDayTest, DutyCycleHolds) {
  automatic_ = {{"dutyCycle", "0.1%"}};  // 86.4 s
  Run(2);
  EachDay([](const std::string& name, const Life& life, const std::vector<Life>& day) {
    Nanos recorded = life.recorded;
    for (const Life& other : day) recorded += other.recorded;
    EXPECT_LE(recorded, 86'400ms) << name;
  });
  EXPECT_GT(lives_.size(), 50u / kPart);
}

TEST_F(SimulatedDayTest, BytesPerDayHold) {
  automatic_ = {{"bytesPerDay", "100k"}, {"maxConcurrent", 1}};
  Run(3);
  EachDay([](const std::string& name, const Life&, const std::vector<Life>& day) {
    std::uint64_t bytes = 0;
    for (const Life& other : day) bytes += other.bytes;
    EXPECT_LT(bytes, 100'000u) << name;
  });
  EXPECT_GT(lives_.size(), 20u / kPart);
}

TEST_F(SimulatedDayTest, OneAtATime) {
  automatic_ = {{"maxConcurrent", 1}};
  Run(4, 6h);
  std::vector<Life> lives;
  for (const auto& [name, life] : lives_) lives.push_back(life);
  std::sort(lives.begin(), lives.end(),
            [](const Life& a, const Life& b) { return a.created < b.created; });
  for (std::size_t i = 1; i < lives.size(); ++i) {
    EXPECT_NE(lives[i - 1].ended, WallTime{}) << i;
    EXPECT_LE(lives[i - 1].ended, lives[i].created) << i;
  }
  EXPECT_GT(lives.size(), 25u);
}

}  // namespace
}  // namespace strobe::access
