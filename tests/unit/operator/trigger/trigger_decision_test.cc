#include "operator/trigger/trigger_decision.h"

#include <gmock/gmock.h>

namespace strobe::trigger {
namespace {

using namespace std::chrono_literals;

ProfileTrigger TriggerFor(std::map<std::string, std::string> labels) {
  ProfileTrigger trigger;
  trigger.ns = "ml";
  trigger.alerts.match_labels = std::move(labels);
  return trigger;
}

TEST(TriggerMatch, AllLabelsAndTheNamespaceMustMatch) {
  ProfileTrigger trigger = TriggerFor({{"alertname", "Slow"}, {"severity", "page"}});
  Alert alert{.labels = {{"alertname", "Slow"},
                         {"severity", "page"},
                         {"namespace", "ml"},
                         {"exported_namespace", "x"}}};
  EXPECT_TRUE(MatchesAlert(trigger, alert));
  trigger.alerts.namespace_label = "exported_namespace";
  EXPECT_FALSE(MatchesAlert(trigger, alert));
  trigger.ns = "x";
  EXPECT_TRUE(MatchesAlert(trigger, alert));
  alert.labels.erase("severity");
  EXPECT_FALSE(MatchesAlert(trigger, alert));
  trigger.alerts.match_labels.erase("severity");
  trigger.alerts.namespace_label = "none";
  EXPECT_FALSE(MatchesAlert(trigger, alert)) << "an alert without a namespace is nobody's";
}

TEST(TriggerMatch, TheTargetIsTheTemplatesOrTheJobOrThePod) {
  ProfileTrigger trigger = TriggerFor({{"a", "b"}});
  Alert alert{.labels = {{"pod", "p-0"}, {"job_name", "j"}, {"instance", ""}}};
  EXPECT_EQ(TargetOfAlert(trigger, alert).pod, "p-0");
  trigger.alerts.job_label = "job_name";
  EXPECT_EQ(TargetOfAlert(trigger, alert).job->name, "j");
  EXPECT_EQ(TargetOfAlert(trigger, alert).job->kind, "Job");
  trigger.alerts.job_label = "instance";
  EXPECT_EQ(TargetOfAlert(trigger, alert).pod, "p-0")
      << "an empty label is as if it were not there";
  trigger.alerts.pod_label = "exported_pod";
  EXPECT_EQ(TargetOfAlert(trigger, alert).missing, "instance or exported_pod");
  trigger.has_target = true;
  const AlertTarget target = TargetOfAlert(trigger, alert);
  EXPECT_TRUE(target.missing.empty() && target.pod.empty() && !target.job);
}

TEST(TriggerMatch, AnAlertIsOneFiring) {
  Alert alert{.fingerprint = "f", .starts = WallTime{1500ms}};
  EXPECT_EQ(AlertId(alert), "f@1970-01-01T00:00:01.500Z");
  alert.fingerprint = std::string(1000, 'f');
  EXPECT_LT(AlertId(alert).size(), 100u);
}

job::PodInfo PodOf(std::map<std::string, std::string> labels,
                   std::vector<job::PodInfo::Owner> owners = {}) {
  job::PodInfo pod{.name = "p"};
  pod.labels = std::move(labels);
  pod.owners = std::move(owners);
  return pod;
}

TEST(TriggerMatch, AJobThatIsMadeOfOthersIsMeant) {
  const auto job = [](const job::PodInfo& pod) { return job::JobText(JobOfPod(pod)); };
  constexpr char kBatch[] = "batch.kubernetes.io/job-name";
  constexpr char kKubeflow[] = "training.kubeflow.org/job-name";
  EXPECT_EQ(job(PodOf({{kBatch, "a"}})), "Job/a");
  EXPECT_EQ(job(PodOf({{kBatch, "s-w-0"}, {"jobset.sigs.k8s.io/jobset-name", "s"}})), "JobSet/s");
  EXPECT_EQ(job(PodOf({{kKubeflow, "t"}}, {{"PyTorchJob", "t"}})), "PyTorchJob/t");
  EXPECT_EQ(job(PodOf({{kKubeflow, "m"}, {kBatch, "m-launcher"}}, {{"Job", "m-launcher"}})),
            "MPIJob/m");
  EXPECT_EQ(job(PodOf({{"leaderworkerset.sigs.k8s.io/name", "l"}}, {{"StatefulSet", "l"}})),
            "LeaderWorkerSet/l");
  EXPECT_EQ(job(PodOf({{"ray.io/cluster", "r"}}, {{"RayCluster", "r"}})), "RayCluster/r");
  EXPECT_EQ(job(PodOf({{"volcano.sh/job-name", "v"}})), "Job.batch.volcano.sh/v");
  EXPECT_EQ(JobOfPod(PodOf({{"volcano.sh/job-name", "v"}})).api_version,
            "batch.volcano.sh/v1alpha1");
  EXPECT_EQ(job(PodOf({}, {{"StatefulSet", "w"}})), "StatefulSet/w");
  EXPECT_EQ(job(PodOf({}, {{"Unknown", "u"}})), "Pod/p");
}

TEST(TriggerMatch, NamesOfRunsCountUp) {
  const std::string twelfth = TriggeredRunName("t", "JobSet/llm", 12);
  EXPECT_EQ(NumberOfTriggeredRun(twelfth), 12);
  EXPECT_EQ(NumberOfTriggeredRun(kube::OtherRunName(twelfth, ProfileTrigger(), "key")), 12);
  EXPECT_NE(TriggeredRunName("t", "JobSet/a", 1), TriggeredRunName("t", "JobSet/b", 1));
  for (const char* other : {"t", "t-", "t-x", "t--1", "t-99999999999999999999", "t-0"})
    EXPECT_LE(NumberOfTriggeredRun(other), 1) << other;
}

constexpr WallTime kFirstStall{1'700'000'000s};

// The run number `number` found the job standing still, because of a rank on a node.
TriggerRun Stall(int number, int rank, const std::string& node) {
  TriggerRun run;
  run.name = "stuck-" + std::to_string(number);
  run.job = "Job/llm";
  run.created = kFirstStall + number * 1h;
  run.stalled = true;
  run.stall_class = "Host";
  run.stall_confidence = "Firm";
  run.stall_verdict = "rank " + std::to_string(rank) + " holds up 3 others";
  run.culprits = {{.rank = rank, .pod = "llm-x", .node = node}};
  return run;
}

TEST(StallHistory, TheNewestStallIsTold) {
  const auto last = LastStallOf({Stall(2, 9, "node-3"), Stall(1, 4, "node-1")}, std::nullopt);
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->run, "stuck-2");
  EXPECT_EQ(last->time, kFirstStall + 2h);
  EXPECT_EQ(last->kind, "Host");
  EXPECT_EQ(last->confidence, "Firm");
  EXPECT_EQ(last->verdict, "rank 9 holds up 3 others");
  EXPECT_EQ(last->repeated, "");
}

TEST(StallHistory, TheSameRankAndNodeThreeTimesIsSaid) {
  const auto last = LastStallOf(
      {Stall(3, 9, "node-3"), Stall(2, 9, "node-3"), Stall(1, 9, "node-3")}, std::nullopt);
  EXPECT_EQ(last->repeated, "rank 9 on node-3 in the last 3 stalls");
}

TEST(StallHistory, ARankThatMovedAndANodeThatGotAnotherRankAreToldApart) {
  EXPECT_EQ(LastStallOf({Stall(3, 9, "node-1"), Stall(2, 9, "node-2"), Stall(1, 9, "node-3")},
                        std::nullopt)
                ->repeated,
            "rank 9 in the last 3 stalls");
  EXPECT_EQ(LastStallOf({Stall(3, 1, "node-3"), Stall(2, 7, "node-3"), Stall(1, 9, "node-1")},
                        std::nullopt)
                ->repeated,
            "node node-3 in the last 2 stalls");
  EXPECT_EQ(LastStallOf({Stall(3, 9, "node-3"), Stall(2, 9, "node-3"), Stall(1, 9, "node-1")},
                        std::nullopt)
                ->repeated,
            "rank 9 in the last 3 stalls; node node-3 in the last 2 stalls");
  EXPECT_EQ(
      LastStallOf({Stall(3, 9, ""), Stall(2, 4, ""), Stall(1, 9, "")}, std::nullopt)->repeated, "")
      << "a stall between them, of another rank, ends the row";
}

TEST(StallHistory, StallsOfOtherJobsAndRunsWithoutOneDoNotCount) {
  TriggerRun other = Stall(2, 9, "node-3");
  other.job = "Job/web";
  TriggerRun trace = Stall(3, 9, "node-3");
  trace.stalled = false;
  const auto last =
      LastStallOf({Stall(4, 9, "node-3"), trace, other, Stall(1, 9, "node-3")}, std::nullopt);
  EXPECT_EQ(last->repeated, "rank 9 on node-3 in the last 2 stalls");
}

TEST(StallHistory, TheVerdictOutlivesItsRunButNotItsWithdrawal) {
  const auto former = LastStallOf({Stall(2, 9, "node-3")}, std::nullopt);
  EXPECT_EQ(LastStallOf({}, former), former);
  TriggerRun withdrawn = Stall(2, 9, "node-3");
  withdrawn.stalled = false;
  EXPECT_EQ(LastStallOf({withdrawn}, former), std::nullopt);
  EXPECT_EQ(LastStallOf({withdrawn, Stall(1, 4, "node-1")}, former)->run, "stuck-1");
}

TEST(StallHistory, NobodyNamedIsNobodyRepeated) {
  TriggerRun first = Stall(1, 9, "node-3"), second = Stall(2, 9, "node-3");
  second.culprits.clear();
  EXPECT_EQ(RepeatedCulprit({&second, &first}), "");
  EXPECT_EQ(RepeatedCulprit({}), "");
}

}  // namespace
}  // namespace strobe::trigger
