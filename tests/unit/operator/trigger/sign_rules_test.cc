#include "operator/trigger/sign_rules.h"

#include <gmock/gmock.h>

#include "operator/trigger/trigger_decision.h"

namespace strobe::trigger {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ProfileTrigger TriggerWithSigns() {
  ProfileTrigger trigger;
  trigger.ns = "ml";
  trigger.name = "slow";
  trigger.signs.steps_slower = SlowSteps{50, 10};
  trigger.signs.no_step_for = 2min;
  return trigger;
}

SignWorker WorkerOfJob(const std::string& job) {
  job::PodInfo pod{.name = job + "-0", .uid = "u-0"};
  pod.labels = {{"batch.kubernetes.io/job-name", job}, {"app", "train"}};
  return SignWorkerOf(pod);
}

TEST(SignRules, ATriggerAsksItsTargetOrEveryWorker) {
  ProfileTrigger trigger = TriggerWithSigns();
  const SignWorker worker = WorkerOfJob("llm");
  EXPECT_EQ(worker.job.name, "llm");
  EXPECT_TRUE(AsksForSigns(trigger, worker));
  trigger.has_target = true;
  trigger.target_job = "Job/llm";
  EXPECT_TRUE(AsksForSigns(trigger, worker));
  trigger.target_job = "Job/bert";
  EXPECT_FALSE(AsksForSigns(trigger, worker));
  trigger.target.pods = {"a", "llm-0"};
  EXPECT_TRUE(AsksForSigns(trigger, worker));
  trigger.target.pods = {"llm-1"};
  EXPECT_FALSE(AsksForSigns(trigger, worker));
  trigger.target.pods.clear();
  trigger.target.selector.emplace().requirements = {
      {"app", kube::LabelSelector::Requirement::Operator::kIn, {"train"}}};
  EXPECT_TRUE(AsksForSigns(trigger, worker));
  trigger.target.selector->requirements.front().values = {"serve"};
  EXPECT_FALSE(AsksForSigns(trigger, worker));
}

TEST(SignRules, ATriggerThatRestsOrWantsNoneAsksNobody) {
  ProfileTrigger trigger = TriggerWithSigns();
  trigger.suspend = true;
  EXPECT_FALSE(AsksForSigns(trigger, WorkerOfJob("llm")));
  trigger = TriggerWithSigns();
  trigger.invalid = "spec.signs";
  EXPECT_FALSE(AsksForSigns(trigger, WorkerOfJob("llm")));
  trigger = TriggerWithSigns();
  trigger.signs = {};
  EXPECT_FALSE(AsksForSigns(trigger, WorkerOfJob("llm")));
  EXPECT_THAT(RulesOf(trigger), IsEmpty());
}

TEST(SignRules, EachSignIsARuleThatItsIdFinds) {
  ProfileTrigger trigger = TriggerWithSigns();
  trigger.signs.memory_percent = 90;
  trigger.signs.slower_than_others = SlowSteps{30, 5};
  trigger.signs.iteration_slower = SlowSteps{200, 1};
  EXPECT_THAT(
      RulesOf(trigger),
      ElementsAre(SignRule{"slow/StepsSlower", SignKind::kStepsSlower, 50, 10, {}},
                  SignRule{"slow/NoStep", SignKind::kNoStep, 0, 0, 2min},
                  SignRule{"slow/MemoryNearLimit", SignKind::kMemoryNearLimit, 90, 0, {}},
                  SignRule{"slow/SlowerThanOthers", SignKind::kSlowerThanOthers, 30, 5, {}},
                  SignRule{"slow/IterationSlower", SignKind::kIterationSlower, 200, 1, {}}));
  EXPECT_EQ(FindRule(trigger, "slow/NoStep")->duration, 2min);
  EXPECT_EQ(FindRule(trigger, "other/NoStep"), std::nullopt);
  EXPECT_EQ(FindRule(trigger, ""), std::nullopt);
}

TEST(SignRules, ASignIsAnAlertOfItsWorkersJobThatNoLabelsMatch) {
  const ProfileTrigger trigger = TriggerWithSigns();
  const WallTime now{1'700'000'000s};
  const ReportedSign sign{.rule = "slow/StepsSlower",
                          .began_ago = 4s,
                          .loop = "train",
                          .process = "python 7",
                          .step = 150ms,
                          .usual_step = 100ms};
  const SignRule rule = *FindRule(trigger, sign.rule);
  const Alert alert = AlertOfSign(rule, sign, WorkerOfJob("llm"), now);
  EXPECT_TRUE(alert.firing);
  EXPECT_EQ(alert.starts, now - 4s);
  EXPECT_EQ(NameOfAlert(alert), "StepsSlower");
  EXPECT_EQ(alert.sign,
            "llm-0: steps of train in python 7 take 150ms instead of 100ms, 50% more; it began 4s "
            "before");
  EXPECT_EQ(TargetOfAlert(trigger, alert).job->name, "llm");
  EXPECT_FALSE(MatchesAlert(trigger, alert)) << "without alerts.matchLabels no alert matches";
  ReportedSign later = sign;
  later.began_ago = 7s;  // Told again, because the first answer was lost.
  EXPECT_EQ(AlertId(AlertOfSign(rule, later, WorkerOfJob("llm"), now + 3s)), AlertId(alert));
  ReportedSign forged = sign;
  forged.began_ago = Nanos::max();
  EXPECT_EQ(AlertOfSign(rule, forged, WorkerOfJob("llm"), now).starts, now - kMaxSignAge);
}

TEST(SignRules, MemoryAndPausesAreToldInTheirOwnWords) {
  ProfileTrigger trigger = TriggerWithSigns();
  trigger.signs.memory_percent = 90;
  const auto words = [&](const ReportedSign& sign) {
    return AlertOfSign(*FindRule(trigger, sign.rule), sign, WorkerOfJob("llm"), WallTime{}).sign;
  };
  EXPECT_THAT(words({.rule = "slow/NoStep", .began_ago = 2min, .loop = "train", .usual_step = 1s}),
              HasSubstr("no step of train has begun for 2m"));
  trigger.signs.iteration_slower = SlowSteps{200, 1};
  EXPECT_EQ(words({.rule = "slow/IterationSlower",
                   .began_ago = 2s,
                   .loop = "engine",
                   .process = "VLLM::EngineCore 9",
                   .step = 310ms,
                   .usual_step = 10ms,
                   .batch_requests = 4,
                   .batch_tokens = 4}),
            "llm-0: an iteration of 4 requests and 4 tokens in VLLM::EngineCore 9 took 310ms "
            "instead of 10ms, 3000% more than those of like size; it began 2s before");
  EXPECT_THAT(words({.rule = "slow/NoStep",
                     .began_ago = 31s,
                     .loop = "engine",
                     .process = "VLLM::EngineCore 9",
                     .usual_step = 10ms,
                     .running = 1,
                     .waiting = 5}),
              HasSubstr("no step of engine in VLLM::EngineCore 9 has begun for 31s while 1 request "
                        "runs and 5 wait; a step usually takes 10ms"));
  EXPECT_THAT(
      words({.rule = "slow/MemoryNearLimit", .memory_used = 93u << 20, .memory_limit = 100u << 20}),
      HasSubstr("uses 93 of 100 MiB of memory"));
}

TEST(SignRules, AWorkerThatStandsStillIsToldWithItsUsualStep) {
  ProfileTrigger trigger = TriggerWithSigns();
  trigger.signs = {};
  trigger.signs.stalled.emplace();
  EXPECT_THAT(RulesOf(trigger),
              ElementsAre(SignRule{"slow/Stalled", SignKind::kStalled, 0, 10, 3s}));
  const ReportedSign sign{.rule = "slow/Stalled",
                          .began_ago = 14s,
                          .loop = "train",
                          .process = "python 7",
                          .usual_step = 900ms};
  const Alert alert =
      AlertOfSign(*FindRule(trigger, sign.rule), sign, WorkerOfJob("llm"), WallTime{});
  EXPECT_EQ(NameOfAlert(alert), "Stalled");
  EXPECT_EQ(alert.sign,
            "llm-0: no step of train in python 7 and no collective has begun for 14s; a step "
            "usually takes 900ms");
}

}  // namespace
}  // namespace strobe::trigger
