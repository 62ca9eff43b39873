#include "operator/trigger/trigger_sink.h"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>

#include "common/base/strings.h"
#include "operator/trigger/trigger_decision.h"
#include "operator/trigger/trigger_reconciler.h"
#include "operator/trigger/trigger_sign_sink.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::trigger {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

// What the API server stores.
struct TriggerApi {
  std::map<std::string, ProfileTrigger> triggers;  // By name; all in the namespace ml.
  std::map<std::string, TriggerRun> runs;
  std::map<std::string, std::string> pods;  // The JobSet of each pod.
  std::map<std::string, int> created;       // How often each run was created.
  std::map<std::string, int> captures;      // How often each alert was captured.
  std::vector<std::string> events;
  std::optional<kube::RunRefusal> refusal;
  std::optional<policy::SeriesBounds> bounds = policy::SeriesBounds{};  // What policies say.
  bool down = false;
  int reads = 0, writes = 0, statuses = 0, looks_at_seal = 0;
};

// One operator, which may end at any call, before or after the server has carried it out.
class TriggerClusterFake final : public Cluster {
 public:
  TriggerClusterFake(const Clock& clock, TriggerApi& api) : clock_(clock), api_(api) {}

  void EndAt(int call, bool carried_out) {
    calls_left_ = call;
    carried_out_ = carried_out;
  }
  bool ended() const { return calls_left_ == 0; }

  absl::StatusOr<ProfileTrigger> ReadTrigger(const std::string&, const std::string& name,
                                             Nanos) override {
    const absl::Status called = Call([&] { ++api_.reads; });
    if (!called.ok()) return called;
    return GetTrigger("ml/" + name);
  }
  absl::StatusOr<std::vector<TriggerRun>> ReadRuns(const std::string&, const std::string& job,
                                                   Nanos) override {
    const absl::Status called = Call([&] { ++api_.reads; });
    if (!called.ok()) return called;
    std::vector<TriggerRun> runs;
    for (const auto& [name, run] : api_.runs)
      if (run.job == job) runs.push_back(run);
    return runs;
  }
  absl::StatusOr<job::PodInfo> ReadPod(const std::string&, const std::string& name,
                                       Nanos) override {
    const absl::Status called = Call([&] { ++api_.reads; });
    if (!called.ok()) return called;
    if (!api_.pods.contains(name)) return absl::NotFoundError(name);
    job::PodInfo pod{.name = name, .uid = "uid-" + name};
    pod.labels["jobset.sigs.k8s.io/jobset-name"] = api_.pods[name];
    return pod;
  }
  absl::StatusOr<std::optional<kube::RunRefusal>> StartRun(const ProfileTrigger& trigger,
                                                           TriggeredRun& run, Nanos) override {
    const absl::Status called = Call([&] {
      if (api_.refusal || api_.runs.contains(run.name)) return;
      ++api_.writes;
      ++api_.created[run.name];
      ++api_.captures[run.alert];
      TriggerRun made;
      made.name = made.uid = run.name;
      made.trigger_uid = trigger.uid;
      made.trigger = trigger.name;
      made.job = run.job;
      made.alert = run.alert;
      made.alert_name = run.alert_name;
      made.sign = run.sign;
      made.created = kube::WholeSeconds(clock_.WallNow());
      made.recorded = trigger.duration;
      api_.runs[run.name] = made;
    });
    if (!called.ok()) return called;
    return api_.refusal;
  }
  absl::StatusOr<ProfileTrigger> GetTrigger(const std::string& key) override {
    const auto found = api_.triggers.find(key.substr(3));
    if (found == api_.triggers.end()) return absl::NotFoundError(key);
    return found->second;
  }
  std::vector<TriggerRun> RunsOf(const ProfileTrigger& trigger) override {
    std::vector<TriggerRun> runs;
    for (const auto& [name, run] : api_.runs)
      if (run.trigger_uid == trigger.uid) runs.push_back(run);
    return runs;
  }
  std::optional<policy::SeriesBounds> BoundsOf(const std::string&) override { return api_.bounds; }
  absl::Status DeleteRun(const ProfileTrigger&, const kube::CreatedRun& run) override {
    return Call([&] { api_.runs.erase(run.name); });
  }
  absl::Status WriteStatus(const ProfileTrigger& trigger, const TriggerStatus& status) override {
    return Call([&] {
      ++api_.writes;
      ++api_.statuses;
      api_.triggers[trigger.name].status = status;
    });
  }
  std::optional<Nanos> KeepSealed(const ProfileTrigger&) override {
    ++api_.looks_at_seal;
    return 10min;
  }
  void RecordEvent(const ProfileTrigger&, bool, const std::string& reason, const std::string&,
                   const std::string& note) override {
    ++api_.writes;
    api_.events.push_back(StrCat(reason, ": ", note));
  }

 private:
  template <typename Effect>
  absl::Status Call(const Effect& effect) {
    if (calls_left_ == 0) return absl::UnavailableError("the operator has ended");
    if (api_.down) return absl::UnavailableError("the API server is away");
    if (calls_left_ > 0 && --calls_left_ == 0) {
      if (carried_out_) effect();
      return absl::UnavailableError("the operator ends");
    }
    effect();
    return absl::OkStatus();
  }

  const Clock& clock_;
  TriggerApi& api_;
  int calls_left_ = -1;
  bool carried_out_ = false;
};

class CountedAlerts final : public Metrics {
 public:
  void AlertDecided(std::string_view outcome) override { ++counts[std::string(outcome)]; }
  void SignDecided(std::string_view sign, std::string_view outcome) override {
    ++counts[StrCat(sign, " ", outcome)];
  }
  std::map<std::string, int> counts;
};

ProfileTrigger MakeTrigger(const std::string& name = "slow") {
  ProfileTrigger trigger;
  trigger.ns = "ml";
  trigger.name = name;
  trigger.uid = "uid-" + name;
  trigger.generation = 1;
  trigger.alerts.match_labels = {{"alertname", "StepSlow"}};
  trigger.budget.cool_down = 10min;
  trigger.budget.captures_per_day = 10;
  trigger.duration = 2s;
  trigger.keep_succeeded = trigger.keep_failed = 3;
  return trigger;
}

// One process: memory that a restart forgets.
struct TriggerProcess {
  TriggerProcess(const Clock& clock, TriggerApi& api)
      : cluster(clock, api),
        sink({clock, cluster, table, notebook, metrics,
              [this](const std::string& key) { noted.insert(key); }}),
        reconciler(clock, cluster, notebook, [] { return true; }) {
    for (const auto& [name, trigger] : api.triggers) table.Put(trigger);
    sink.Open();
  }

  TriggerClusterFake cluster;
  Table table;
  Notebook notebook;
  CountedAlerts metrics;
  std::set<std::string> noted;
  TriggerSink sink;
  Reconciler reconciler;
};

class TriggerSinkTest : public testing::Test {
 protected:
  TriggerSinkTest() {
    api_.triggers["slow"] = MakeTrigger();
    for (const char* pod : {"llm-0", "llm-1"}) api_.pods[pod] = "llm";
    api_.pods["bert-0"] = "bert";
    Restart();
  }

  void Restart() { process_ = std::make_unique<TriggerProcess>(time_, api_); }
  void Change(const ProfileTrigger& trigger) {
    api_.triggers[trigger.name] = trigger;
    ++api_.triggers[trigger.name].generation;
    Restart();
  }
  Alert Slow(const std::string& pod) const {
    return {.fingerprint = "print-of-" + pod,
            .firing = true,
            .labels = {{"alertname", "StepSlow"}, {"namespace", "ml"}, {"pod", pod}},
            .starts = time_.WallNow() - 1s};
  }
  absl::Status Take(const Alert& alert) {
    return process_->sink.Take({&alert, 1}, time_.MonoNow() + 10s);
  }
  // The reason why the alert starts nothing; empty if it starts a capture.
  std::string Reason(const Alert& alert) {
    process_->metrics.counts.clear();
    const absl::Status taken = Take(alert);
    EXPECT_TRUE(taken.ok()) << taken;
    const std::string outcome = process_->metrics.counts.begin()->first;
    return outcome == "Taken" ? "" : outcome;
  }
  TriggerRun& OnlyRun() {
    EXPECT_THAT(api_.runs, SizeIs(1));
    return api_.runs.begin()->second;
  }
  void EndRuns(kube::RunState state = kube::RunState::kSucceeded) {
    for (auto& [name, run] : api_.runs) run.state = state;
  }
  TriggerStatus Reconcile() {
    const auto result = process_->reconciler.Reconcile("ml/slow");
    EXPECT_TRUE(result.ok()) << result.status();
    return api_.triggers["slow"].status;
  }

  SimulatedTime time_;
  TriggerApi api_;
  std::unique_ptr<TriggerProcess> process_;
};

TEST_F(TriggerSinkTest, AnAlertStartsACaptureOfTheJobOfItsPod) {
  const Alert alert = Slow("llm-0");
  EXPECT_EQ(Reason(alert), "");
  EXPECT_EQ(OnlyRun().job, "JobSet/llm");
  EXPECT_EQ(OnlyRun().alert_name, "StepSlow");
  EXPECT_THAT(process_->noted, ElementsAre("ml/slow"));
  const int reads = api_.reads;
  EXPECT_EQ(Reason(alert), kAlreadyCaptured);
  EXPECT_EQ(Reason(Slow("llm-1")), kAlreadyCaptured) << "it had begun when llm was captured";
  EXPECT_EQ(api_.reads - reads, 1) << "only to find the job of llm-1";
  time_.Advance(1s);
  EXPECT_EQ(Reason(Slow("bert-0")), "") << "another job";
  EXPECT_THAT(api_.runs, SizeIs(2));
}

TEST_F(TriggerSinkTest, WhatConcernsNoTriggerOrIsOverStartsNothing) {
  Alert alert = Slow("llm-0");
  alert.firing = false;
  EXPECT_EQ(Reason(alert), "Resolved");
  alert = Slow("llm-0");
  alert.labels["namespace"] = "other";
  EXPECT_EQ(Reason(alert), "Unmatched");
  alert = Slow("llm-0");
  alert.labels["alertname"] = "StepSlower";
  EXPECT_EQ(Reason(alert), "Unmatched");
  alert = Slow("llm-0");
  alert.labels.erase("pod");
  EXPECT_EQ(Reason(alert), kNoTargetLabel);
  EXPECT_EQ(Reason(Slow("gone-0")), kPodNotFound);
  alert = Slow("llm-0");
  alert.starts = time_.WallNow() - 25h;
  EXPECT_EQ(Reason(alert), kAlertTooOld);
  ProfileTrigger trigger = MakeTrigger();
  trigger.suspend = true;
  Change(trigger);
  EXPECT_EQ(Reason(Slow("llm-0")), kTriggerSuspended);
  trigger.suspend = false;
  trigger.invalid = "spec.alerts.jobKind: unknown";
  Change(trigger);
  EXPECT_EQ(Reason(Slow("llm-0")), kTriggerInvalid);
  EXPECT_THAT(api_.runs, IsEmpty());
}

TEST_F(TriggerSinkTest, ALabelMayNameTheJob) {
  ProfileTrigger trigger = MakeTrigger();
  trigger.alerts.job_label = "train_job";
  trigger.alerts.job_kind = "PyTorchJob";
  Change(trigger);
  Alert alert = Slow("gone-0");
  alert.labels["train_job"] = "gpt";
  EXPECT_EQ(Reason(alert), "");
  EXPECT_EQ(OnlyRun().job, "PyTorchJob/gpt");
}

TEST_F(TriggerSinkTest, TheCoolDownLastsWhateverBecomesOfTheCaptureAndTheOperator) {
  EXPECT_EQ(Reason(Slow("llm-0")), "");
  time_.Advance(5min);
  EXPECT_EQ(Reason(Slow("llm-0")), policy::kCoolDown);
  Restart();
  EXPECT_EQ(Reason(Slow("llm-0")), kRunActive);
  EndRuns(kube::RunState::kFailed);
  Restart();
  EXPECT_EQ(Reason(Slow("llm-0")), policy::kCoolDown);
  time_.Advance(5min);
  EXPECT_EQ(Reason(Slow("llm-0")), "");
  EXPECT_THAT(api_.created, SizeIs(2));
}

TEST_F(TriggerSinkTest, ARepeatedAlertStartsNothingNewAfterARestartAndTheCoolDown) {
  Alert early = Slow("llm-0"), ahead = Slow("llm-1");
  ahead.starts = time_.WallNow() + 2min;  // The clock of whoever made it is ahead.
  EXPECT_EQ(Reason(ahead), "");
  EndRuns();
  for (int i = 0; i < 23; ++i) {
    time_.Advance(1h);
    if (i % 3 == 0) Restart();
    Reconcile();
    EXPECT_EQ(Reason(early), kAlreadyCaptured);
    EXPECT_EQ(Reason(ahead), kAlreadyCaptured);
  }
  time_.Advance(2h);
  Restart();
  Reconcile();
  EXPECT_EQ(Reason(early), kAlertTooOld);
  EXPECT_THAT(api_.created, SizeIs(1));
}

TEST_F(TriggerSinkTest, EachBudgetIsKeptAndFreeAgainADayLater) {
  const auto captures = [&](auto limit) {
    api_.runs.clear();
    ProfileTrigger trigger = MakeTrigger();
    trigger.budget.captures_per_day = 5;
    limit(trigger.budget);
    Change(trigger);
    int started = 0;
    std::string why;
    for (int i = 0; i < 12; ++i) {
      time_.Advance(11min);
      if (i % 2 == 0) Restart();
      why = Reason(Slow("llm-0"));
      started += why.empty() ? 1 : 0;
      EndRuns();
      for (auto& [name, run] : api_.runs) run.bytes = 1000;
      Reconcile();
    }
    time_.Advance(24h);
    EXPECT_EQ(Reason(Slow("llm-0")), "") << "the day is over";
    EndRuns();
    return StrCat(started, " ", why);
  };
  EXPECT_EQ(captures([](Budget&) {}), "5 CapturesPerDay");
  // 0.005 % of a day are 4.32 s.
  EXPECT_EQ(captures([](Budget& budget) { budget.duty_cycle = 0.00005; }), "2 DutyCycle");
  EXPECT_EQ(captures([](Budget& budget) { budget.bytes_per_day = 2500; }), "3 BytesPerDay");
}

TEST_F(TriggerSinkTest, OneAtATimePerJobWhateverTheTrigger) {
  EXPECT_EQ(Reason(Slow("llm-0")), "");
  api_.triggers["other"] = MakeTrigger("other");
  api_.triggers["slow"].suspend = true;
  Restart();
  process_->table.Remove("ml/slow");
  EXPECT_EQ(Reason(Slow("llm-0")), kRunActive);
  EndRuns();
  time_.Advance(10s);
  EXPECT_EQ(Reason(Slow("llm-0")), "") << "the budget is each trigger's own";
}

TEST_F(TriggerSinkTest, WhatIsRefusedIsToldAndAskedAgainLater) {
  api_.refusal = kube::RunRefusal{"NotAllowed", "jane may not profile"};
  EXPECT_EQ(Reason(Slow("llm-0")), "NotAllowed");
  const TriggerStatus status = Reconcile();
  EXPECT_EQ(status.last_skip->message, "jane may not profile");
  EXPECT_THAT(status.skipped, ElementsAre(Pair("NotAllowed", 1)));
  EXPECT_THAT(api_.events.back(), HasSubstr("NotAllowed: jane may not profile"));
  api_.refusal.reset();
  EXPECT_EQ(Reason(Slow("llm-0")), "NotAllowed") << "not asked at each alert";
  time_.Advance(2min);
  EXPECT_EQ(Reason(Slow("llm-0")), "");
}

// A refusal used to be remembered until the clock had reached the time that it had before.
TEST_F(TriggerSinkTest, ARefusalIsForgottenAlsoWhenTheClockIsSetBack) {
  api_.refusal = kube::RunRefusal{"NotAllowed", "jane may not profile"};
  EXPECT_EQ(Reason(Slow("llm-0")), "NotAllowed");
  api_.refusal.reset();
  time_.StepWall(-1h);
  time_.Advance(2min);
  EXPECT_EQ(Reason(Slow("llm-0")), "");
}

// All triggers share the rate of starts. What a server refuses uses none of it up.
TEST_F(TriggerSinkTest, AlertsThatAreRefusedLeaveStartsForOtherNamespaces) {
  ProfileTrigger other = MakeTrigger("other");
  other.ns = "vision";
  process_->table.Put(other);
  Alert elsewhere = Slow("bert-0");
  elsewhere.labels["namespace"] = "vision";
  api_.triggers["other"] = other;
  api_.refusal = kube::RunRefusal{"NotAllowed", "jane may not profile"};
  EXPECT_EQ(Reason(Slow("llm-0")), "NotAllowed");
  EXPECT_TRUE(absl::IsUnavailable(Take(Slow("bert-0")))) << "another job of the same namespace";
  api_.refusal.reset();
  EXPECT_EQ(Reason(elsewhere), "") << "at the same time";
  EXPECT_TRUE(absl::IsUnavailable(Take(Slow("bert-0"))));
  EndRuns();
  time_.Advance(2s);
  EXPECT_EQ(Reason(Slow("bert-0")), "");
}

TEST_F(TriggerSinkTest, AlertsOfUnknownPodsLeaveReadsForOtherNamespaces) {
  ProfileTrigger other = MakeTrigger("other");
  other.ns = "vision";
  process_->table.Put(other);
  api_.triggers["other"] = other;
  for (int i = 0; i < 500; ++i) (void)Take(Slow(StrCat("invented-", i)));
  EXPECT_TRUE(absl::IsUnavailable(Take(Slow("invented"))));
  Alert elsewhere = Slow("bert-0");
  elsewhere.labels["namespace"] = "vision";
  EXPECT_EQ(Reason(elsewhere), "") << "at the same time";
}

TEST_F(TriggerSinkTest, AnAlertThatCannotBeDecidedIsSentBack) {
  api_.down = true;
  EXPECT_TRUE(absl::IsUnavailable(Take(Slow("llm-0"))));
  EXPECT_EQ(process_->metrics.counts["Failed"], 1);
  api_.down = false;
  EXPECT_TRUE(absl::IsUnavailable(process_->sink.Take({}, time_.MonoNow())) == false);
  const Alert alert = Slow("llm-0");
  EXPECT_TRUE(absl::IsUnavailable(process_->sink.Take({&alert, 1}, time_.MonoNow())))
      << "there is no time left";
  ++api_.triggers["slow"].generation;
  EXPECT_TRUE(absl::IsUnavailable(Take(alert))) << "the cache is old";
  Restart();
  process_->sink.Close();
  EXPECT_TRUE(absl::IsUnavailable(Take(alert)));
  EXPECT_THAT(api_.runs, IsEmpty());
  process_->sink.Open();
  EXPECT_EQ(Reason(alert), "");
}

TEST_F(TriggerSinkTest, TheStatusTellsAlertsCapturesAndBudgets) {
  EXPECT_EQ(Reason(Slow("llm-0")), "");
  time_.Advance(1min);
  EXPECT_EQ(Reason(Slow("llm-0")), policy::kCoolDown);
  TriggerStatus status = Reconcile();
  EXPECT_EQ(status.taken, 1);
  EXPECT_THAT(status.skipped, ElementsAre(Pair(policy::kCoolDown, 1)));
  EXPECT_EQ(status.active, 1u);
  EXPECT_EQ(status.last_capture->job, "JobSet/llm");
  EXPECT_EQ(status.last_capture->run, OnlyRun().name);
  EXPECT_EQ(status.last_skip->job, "JobSet/llm");
  ASSERT_THAT(status.budgets, SizeIs(1));
  EXPECT_EQ(status.budgets[0].captures, 1u);
  EXPECT_EQ(status.budgets[0].recorded, 2s);
  const int writes = api_.writes;
  Reconcile();
  EXPECT_EQ(api_.writes, writes) << "nothing to write";
  EndRuns();
  EXPECT_EQ(Reconcile().active, 1u) << "it was written just now";
  time_.Advance(kTriggerStatusPause);
  EXPECT_EQ(Reconcile().active, 0u);
}

TEST_F(TriggerSinkTest, TheLeaderKeepsTheSealOfATriggerThatHearsNothing) {
  Reconcile();
  api_.looks_at_seal = 0;
  const auto result = process_->reconciler.Reconcile("ml/slow");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->requeue_after, Nanos{10min});
  EXPECT_EQ(api_.looks_at_seal, 1);
  Reconciler standby(time_, process_->cluster, process_->notebook, [] { return false; });
  EXPECT_TRUE(standby.Reconcile("ml/slow").ok());
  EXPECT_EQ(api_.looks_at_seal, 1);
}

TEST_F(TriggerSinkTest, RunsAreKeptWhileBudgetsCountThem) {
  ProfileTrigger trigger = MakeTrigger();
  trigger.keep_succeeded = 1;
  Change(trigger);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Reason(Slow("llm-0")), "");
    EndRuns();
    Reconcile();
    time_.Advance(1h);
  }
  EXPECT_THAT(api_.runs, SizeIs(4));
  time_.Advance(22h + 30min);
  Reconcile();
  EXPECT_THAT(api_.runs, SizeIs(1)) << "the newest stays";
}

TEST_F(TriggerSinkTest, OldRunsGoWithTheirAgeOrByPolicyForEachJob) {
  ProfileTrigger trigger = MakeTrigger();
  trigger.keep_succeeded = 100;
  Change(trigger);
  for (int i = 0; i < 3; ++i) {
    for (const char* pod : {"llm-0", "bert-0"}) {
      EXPECT_EQ(Reason(Slow(pod)), "");
      time_.Advance(1s);
    }
    EndRuns();
    time_.Advance(1h);
  }
  for (auto& [name, run] : api_.runs) run.completion = run.created + 1min;
  time_.Advance(24h);
  Reconcile();
  EXPECT_THAT(api_.runs, SizeIs(6));
  api_.bounds.reset();
  trigger.keep_succeeded = 0;
  Change(trigger);
  Reconcile();
  EXPECT_THAT(api_.runs, SizeIs(6)) << "what policies keep is not known";
  trigger.keep_succeeded = 100;
  Change(trigger);
  api_.bounds = policy::SeriesBounds{.runs = 2};
  Reconcile();
  EXPECT_THAT(api_.runs, SizeIs(4)) << "two of each job";
  trigger.keep_for = 25h + 30min;
  Change(trigger);
  Reconcile();
  EXPECT_THAT(api_.runs, SizeIs(2)) << "the last of each job has ended 25 hours ago";
}

TEST_F(TriggerSinkTest, NotesThatCannotBeWrittenAreToldLater) {
  EXPECT_EQ(Reason(Slow("llm-0")), "");
  EXPECT_EQ(Reason(Slow("gone-0")), kPodNotFound);
  api_.down = true;
  EXPECT_FALSE(process_->reconciler.Reconcile("ml/slow").ok());
  api_.down = false;
  EXPECT_EQ(Reconcile().taken, 1);
  EXPECT_THAT(Reconcile().skipped, ElementsAre(Pair(kPodNotFound, 1)));
  EXPECT_THAT(api_.events, SizeIs(2));
}

TEST_F(TriggerSinkTest, CapturesAreCountedByTheirRunsWhoeverStartedThem) {
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(Reason(Slow("llm-0")), "");
    Restart();  // Before the status was written.
    EndRuns();
    EXPECT_EQ(Reconcile().taken, i);
    EXPECT_THAT(api_.events.back(), HasSubstr("the alert StepSlow started slow-"));
    time_.Advance(1h);
  }
}

// 1,000 alerts a second for a minute for 50 jobs of 64 pods, all different and repeated until they
// are taken.
TEST_F(TriggerSinkTest, AStormMakesOneCaptureForEachJob) {
  constexpr int kJobs = 50, kPods = 64;
  for (int job = 0; job < kJobs; ++job)
    for (int pod = 0; pod < kPods; ++pod) api_.pods[StrCat(job, "-", pod)] = StrCat("job-", job);
  std::mt19937 random(1);
  std::vector<Alert> again;
  int sent_back = 0;
  for (int second = 0; second < 60; ++second) {
    for (int i = 0; i < 1000; ++i) {
      Alert alert = Slow(StrCat(random() % kJobs, "-", random() % kPods));
      alert.fingerprint = StrCat(second, "-", i);
      again.push_back(std::move(alert));
    }
    std::vector<Alert> now = std::exchange(again, {});
    for (const Alert& alert : now) {
      if (Take(alert).ok()) continue;
      ++sent_back;
      // As Alertmanager repeats the groups of alerts that were sent back, not each alert.
      if (again.size() < 500) again.push_back(alert);
    }
    for (const std::string& key : std::exchange(process_->noted, {})) {
      EXPECT_TRUE(process_->reconciler.Reconcile(key).ok());
    }
    time_.Advance(1s);
  }
  EXPECT_THAT(api_.created, SizeIs(kJobs));
  for (const auto& [name, times] : api_.created) EXPECT_EQ(times, 1) << name;
  EXPECT_LE(api_.writes, 60 * 10);
  EXPECT_LE(api_.statuses, 61);
  EXPECT_LE(api_.reads, 2 * (400 + 60 * 200));
  const TriggerStatus status = Reconcile();
  EXPECT_EQ(status.taken, kJobs);
  EXPECT_GT(status.skipped.at(kAlreadyCaptured) + status.skipped.at(policy::kCoolDown), 30'000);
  RecordProperty("sent_back", sent_back);
}

// Operators end at any call between the alert and the capture, and Alertmanager sends the alert
// again until it is taken, to whoever is there: also to two operators at once.
TEST_F(TriggerSinkTest, NoKillLosesAnAlertOrCapturesItTwice) {
  std::mt19937 random(22);
  const auto chance = [&](unsigned of) { return random() % of == 0; };
  int ended = 0;
  for (int round = 0; round < 400; ++round) {
    time_.Advance(15min + 1s * (random() % 600));
    EndRuns(chance(3) ? kube::RunState::kFailed : kube::RunState::kSucceeded);
    if (chance(4)) Restart();
    const Alert alert = Slow(StrCat("llm-", round % 2));
    api_.triggers["slow"].budget.captures_per_day = 1000;
    const auto runs_before = api_.created.size();
    for (bool taken = false; !taken;) {
      TriggerProcess process(time_, api_);
      if (chance(2)) process.cluster.EndAt(1 + static_cast<int>(random() % 4), chance(2));
      taken = process.sink.Take({&alert, 1}, time_.MonoNow() + 10s).ok();
      ended += process.cluster.ended() ? 1 : 0;
      if (taken && process.cluster.ended()) taken = false;  // The answer was not sent any more.
      time_.Advance(1ms * (random() % 20'000));
    }
    // The other operator is sent it too, and so is the next one after the cool-down.
    EXPECT_TRUE(Take(alert).ok());
    EXPECT_EQ(api_.captures[AlertId(alert)], 1) << round;
    EXPECT_EQ(api_.created.size(), runs_before + 1) << round;
    if (chance(3)) {
      EndRuns();
      time_.Advance(11min);
      Restart();
      EXPECT_TRUE(Take(alert).ok());
      EXPECT_EQ(api_.captures[AlertId(alert)], 1) << round;
    }
    Reconcile();
  }
  for (const auto& [name, times] : api_.created) EXPECT_EQ(times, 1) << name;
  EXPECT_GE(ended, 50);
}

// Two operators that have read the same runs create the same one.
TEST_F(TriggerSinkTest, TheNameFollowsFromTheRunBefore) {
  EXPECT_EQ(TriggeredRunName("slow", "JobSet/llm", 1), TriggeredRunName("slow", "JobSet/llm", 1));
  EXPECT_EQ(Reason(Slow("llm-0")), "");
  EXPECT_EQ(OnlyRun().name, TriggeredRunName("slow", "JobSet/llm", 1));
  EndRuns();
  time_.Advance(11min);
  EXPECT_EQ(Reason(Slow("llm-0")), "");
  EXPECT_TRUE(api_.runs.contains(TriggeredRunName("slow", "JobSet/llm", 2)));
}

// What workers tell, by the whole path to the run.
class TriggerSignSinkTest : public TriggerSinkTest {
 protected:
  TriggerSignSinkTest() {
    ProfileTrigger trigger = MakeTrigger();
    trigger.alerts.match_labels.clear();
    trigger.signs.steps_slower = SlowSteps{50, 10};
    for (int i = 0; i < 8; ++i) api_.pods[StrCat("llm-", i)] = "llm";
    Change(trigger);
    Reopen();
  }
  void Reopen() {
    Restart();
    signs_ = std::make_unique<TriggerSignSink>(time_, process_->cluster, process_->table,
                                               process_->sink, process_->metrics);
  }
  WorkerSigns Told(const std::string& pod, const std::string& rule = "slow/StepsSlower") const {
    WorkerSigns told{.ns = "ml", .pod = pod, .uid = "uid-" + pod};
    told.signs.push_back(
        {.rule = rule, .began_ago = 4s, .loop = "train", .step = 150ms, .usual_step = 100ms});
    return told;
  }
  absl::StatusOr<SignOrders> Tell(const WorkerSigns& told) {
    return signs_->Take(told, time_.MonoNow() + 4s);
  }
  int Count(const std::string& outcome) { return process_->metrics.counts[outcome]; }

  std::unique_ptr<TriggerSignSink> signs_;
};

TEST_F(TriggerSignSinkTest, ASignStartsACaptureOfItsWorkersJobAndSaysWhatWasSeen) {
  const auto orders = Tell(Told("llm-3"));
  ASSERT_TRUE(orders.ok()) << orders.status();
  EXPECT_EQ(orders->again, kTellWithTriggers);
  ASSERT_THAT(orders->rules, SizeIs(1));
  EXPECT_EQ(orders->rules[0].id, "slow/StepsSlower");
  EXPECT_EQ(OnlyRun().job, "JobSet/llm");
  EXPECT_EQ(OnlyRun().alert_name, "StepsSlower");
  EXPECT_THAT(OnlyRun().sign, HasSubstr("llm-3: steps of train take 150ms instead of 100ms"));
  EXPECT_EQ(Count("StepsSlower Taken"), 1);
  const TriggerStatus status = Reconcile();
  EXPECT_EQ(status.taken, 1);
  EXPECT_THAT(status.last_capture->sign, HasSubstr("llm-3"));
  EXPECT_THAT(api_.events, testing::Contains(HasSubstr("the sign StepsSlower started")));
}

TEST_F(TriggerSignSinkTest, AStormOfAllRanksIsOneCaptureAndTheBudgetHolds) {
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(Tell(Told(StrCat("llm-", i))).ok());
  EXPECT_THAT(api_.runs, SizeIs(1));
  EXPECT_EQ(Count("StepsSlower AlreadyCaptured"), 7);
  time_.Advance(1min);
  EXPECT_TRUE(Tell(Told("llm-1")).ok());
  EXPECT_EQ(Count("StepsSlower CoolDown"), 1) << "it began after the capture";
  EXPECT_THAT(Reconcile().last_skip->message, HasSubstr("(llm-1: steps of train take"));
  EndRuns();
  time_.Advance(10min);
  EXPECT_TRUE(Tell(Told("llm-1")).ok());
  EXPECT_THAT(api_.created, SizeIs(2));
}

TEST_F(TriggerSignSinkTest, AWorkerSpeaksForItsOwnPodOnly) {
  WorkerSigns told = Told("llm-0");
  told.uid = "uid-bert-0";  // What its certificate proves.
  EXPECT_TRUE(absl::IsPermissionDenied(Tell(told).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(Tell(Told("gone")).status()));
  told = Told("bert-0");
  told.ns = "other";
  const auto orders = Tell(told);
  ASSERT_TRUE(orders.ok());
  EXPECT_THAT(orders->rules, IsEmpty());
  EXPECT_EQ(orders->again, kTellWithoutTriggers);
  EXPECT_THAT(api_.runs, IsEmpty());
}

TEST_F(TriggerSignSinkTest, RulesThatNoTriggerHasAndForgedComparisonsStartNothing) {
  ProfileTrigger trigger = api_.triggers["slow"];
  trigger.signs.slower_than_others = SlowSteps{50, 10};
  Change(trigger);
  Reopen();
  for (const char* rule : {"", "slow", "slow/NoStep", "other/StepsSlower", "slow/SlowerThanOthers"})
    EXPECT_TRUE(Tell(Told("llm-0", rule)).ok()) << rule;
  EXPECT_THAT(api_.runs, IsEmpty());
}

TEST_F(TriggerSignSinkTest, AWorkerThatIsSlowerThanTheOthersIsCaptured) {
  ProfileTrigger trigger = api_.triggers["slow"];
  trigger.signs = {};
  trigger.signs.slower_than_others = SlowSteps{50, 30};
  Change(trigger);
  Reopen();
  const auto round = [&](Nanos slow) {
    time_.Advance(10s);
    for (int i = 0; i < 8; ++i) {
      WorkerSigns told{.ns = "ml", .pod = StrCat("llm-", i), .uid = StrCat("uid-llm-", i)};
      told.step_times.push_back({"train", "python 7", i == 5 ? slow : Nanos(100ms), 20});
      const auto orders = Tell(told);
      ASSERT_TRUE(orders.ok());
      EXPECT_EQ(orders->again, kTellStepTimes);
    }
  };
  for (int i = 0; i < 5; ++i) round(110ms);
  EXPECT_THAT(api_.runs, IsEmpty());
  round(250ms);
  round(250ms);
  EXPECT_THAT(OnlyRun().sign, HasSubstr("llm-5: steps of train in python 7 take 250ms"));
  round(250ms);
  EXPECT_THAT(api_.runs, SizeIs(1));
}

TEST_F(TriggerSignSinkTest, NothingIsReadForWorkersThatNobodyAsksAndThoseThatAreKnown) {
  const int before = api_.reads;
  WorkerSigns told{.ns = "quiet", .pod = "p", .uid = "u"};
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Tell(told).ok());
  EXPECT_EQ(api_.reads, before);
  told = {.ns = "ml", .pod = "llm-0", .uid = "uid-llm-0"};
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Tell(told).ok());
  EXPECT_EQ(api_.reads, before + 1);
}

TEST_F(TriggerSignSinkTest, WhatCannotBeDecidedIsToldAgain) {
  api_.down = true;
  EXPECT_TRUE(absl::IsUnavailable(Tell(Told("llm-0")).status()));
  api_.down = false;
  EXPECT_TRUE(Tell(Told("llm-0")).ok());
  EXPECT_THAT(api_.runs, SizeIs(1));
}

TEST_F(TriggerSignSinkTest, ASignDuringTheCaptureOfAnotherTriggerIsToldAgain) {
  ProfileTrigger other = MakeTrigger("other");
  other.alerts.match_labels.clear();
  other.signs.no_step_for = 1min;
  Change(other);
  Reopen();
  EXPECT_TRUE(Tell(Told("llm-0", "other/NoStep")).ok());
  time_.Advance(10s);
  WorkerSigns told = Told("llm-1");
  EXPECT_TRUE(absl::IsUnavailable(Tell(told).status()));
  EXPECT_EQ(Count("StepsSlower StillActive"), 1);
  EXPECT_THAT(api_.runs, SizeIs(1));
  EndRuns();
  time_.Advance(10s);
  told.signs.front().began_ago += 10s;
  EXPECT_TRUE(Tell(told).ok());
  EXPECT_THAT(api_.runs, SizeIs(2));
}

TEST_F(TriggerSignSinkTest, WorkersWithoutEndAskTheApiServerABoundedNumberOfTimes) {
  const int before = api_.reads;
  for (int i = 0; i < 5000; ++i) {
    const absl::Status status =
        Tell({.ns = "ml", .pod = StrCat("invented-", i), .uid = StrCat("u", i)}).status();
    EXPECT_TRUE(absl::IsPermissionDenied(status) || absl::IsUnavailable(status));
  }
  EXPECT_LE(api_.reads - before, 200);
}

// Regression: it spent the reads of the namespace that it named.
TEST_F(TriggerSignSinkTest, AWorkerThatSpeaksForOtherPodsIsNotBelievedForAWhile) {
  const int before = api_.reads;
  for (int i = 0; i < 5000; ++i) {
    EXPECT_TRUE(absl::IsPermissionDenied(
        Tell({.ns = "ml", .pod = StrCat("invented-", i), .uid = "uid-llm-0"}).status()));
  }
  EXPECT_EQ(api_.reads - before, 1);
  time_.Advance(31s);
  EXPECT_TRUE(Tell(Told("llm-0")).ok());
}

}  // namespace
}  // namespace strobe::trigger
