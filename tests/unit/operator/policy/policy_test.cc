#include "operator/policy/policy.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe::policy {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using Kind = Verdict::Kind;

const WallTime kNow{seconds(1'800'000'000)};

ProfilePolicy Policy(std::vector<std::string> logdirs) {
  return {.name = "team", .allowed_logdirs = std::move(logdirs)};
}

capture::Spec Capture(const std::string& logdir) {
  capture::Spec capture;
  capture.logdir = logdir;
  return capture;
}

Kind Judge(const ProfilePolicy& policy, const std::string& logdir) {
  return JudgeByPolicies({policy}, {"ml", {}}, Capture(logdir), kNow).kind;
}

TEST(Policy, WithoutOneNothingIsAllowed) {
  const Verdict verdict = JudgeByPolicies({}, {"ml", {}}, Capture("gs://b/x"), kNow);
  EXPECT_EQ(verdict.kind, Kind::kRefused);
  EXPECT_THAT(verdict.message, HasSubstr("no ProfilePolicy matches namespace ml"));
}

TEST(Policy, LogdirsArePrefixesPartByPart) {
  const ProfilePolicy policy = Policy({"gs://team/logs", "/mnt/traces/"});
  for (const char* inside : {"gs://team/logs", "gs://team/logs/", "gs://team/logs/a/b",
                             "gs://team//logs/./a", "/mnt/traces/x", "file:///mnt/traces"}) {
    EXPECT_EQ(Judge(policy, inside), Kind::kAllowed) << inside;
  }
  for (const char* outside : {"gs://team/logs2", "gs://team", "gs://team2/logs", "s3://team/logs",
                              "gs://team/logs/../secret", "/mnt/traces2", "/mnt", "/",
                              "gs://TEAM/logs", "gs://team/%6cogs"}) {
    EXPECT_EQ(Judge(policy, outside), Kind::kRefused) << outside;
  }
  EXPECT_EQ(Judge(Policy({}), "gs://team/logs"), Kind::kRefused);
  EXPECT_EQ(Judge(Policy({"gs://team"}), "gs://team/any"), Kind::kAllowed);
  EXPECT_EQ(Judge(Policy({"nonsense"}), "gs://team/any"), Kind::kRefused);
}

TEST(Policy, ANamespaceCanHaveItsOwnPlace) {
  const ProfilePolicy policy = Policy({"gs://team/{namespace}"});
  EXPECT_EQ(Judge(policy, "gs://team/ml/x"), Kind::kAllowed);
  EXPECT_EQ(Judge(policy, "gs://team/web/x"), Kind::kRefused);
}

TEST(DefaultLogdir, ComesFromTheOnePolicyThatHasIt) {
  ProfilePolicy policy = Policy({"gs://team/{namespace}"});
  const NamespaceFacts ns{.name = "ml"};
  EXPECT_EQ(DefaultLogdir({policy}, ns).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(DefaultLogdir({policy}, ns).status()), HasSubstr("give spec.logdir"));
  policy.default_logdir = "gs://team/{namespace}/traces";
  EXPECT_EQ(*DefaultLogdir({Policy({"/x"}), policy}, ns), "gs://team/ml/traces");
  ProfilePolicy invalid = policy;
  invalid.invalid = "broken";
  EXPECT_FALSE(DefaultLogdir({invalid}, ns).ok()) << "it allows nothing either";
  policy.namespaces.requirements = {
      {"team", kube::LabelSelector::Requirement::Operator::kIn, {"other"}}};
  EXPECT_FALSE(DefaultLogdir({policy}, ns).ok()) << "it does not select the namespace";
}

TEST(DefaultLogdir, MustNotDependOnAChoiceBetweenPolicies) {
  ProfilePolicy one = Policy({"gs://team"}), same = one, other = one;
  one.default_logdir = "gs://team/{namespace}";
  same.name = "same";
  same.default_logdir = "gs://team/ml";
  other.name = "other";
  other.default_logdir = "gs://team/other";
  const NamespaceFacts ns{.name = "ml"};
  EXPECT_EQ(*DefaultLogdir({one, same}, ns), "gs://team/ml");
  for (const auto& policies : {std::vector{one, other, same}, std::vector{other, one, same}}) {
    const absl::Status conflict = DefaultLogdir(policies, ns).status();
    EXPECT_EQ(conflict.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(MessageOf(conflict), HasSubstr("team (gs://team/ml)"));
    EXPECT_THAT(MessageOf(conflict), HasSubstr("other (gs://team/other)"));
  }
}

TEST(SidecarUserOf, IsWhatThePoliciesOfTheNamespaceAgreeOn) {
  ProfilePolicy one = Policy({"/nfs"}), same = one, other = one, elsewhere = one;
  const NamespaceFacts ns{.name = "ml"};
  EXPECT_EQ(*SidecarUserOf({one}, ns), std::nullopt);
  one.sidecar_user = same.sidecar_user = kube::SidecarUser{1000, 100};
  other.name = "other";
  other.sidecar_user = kube::SidecarUser{1000, 1000};
  elsewhere.sidecar_user = kube::SidecarUser{7, 7};
  elsewhere.namespaces.requirements = {
      {"team", kube::LabelSelector::Requirement::Operator::kIn, {"other"}}};
  EXPECT_EQ(*SidecarUserOf({Policy({"/x"}), one, same, elsewhere}, ns),
            (kube::SidecarUser{1000, 100}));
  const absl::Status conflict = SidecarUserOf({one, other}, ns).status();
  EXPECT_EQ(conflict.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(conflict), HasSubstr("team (1000:100), other (1000:1000)"));
  other.invalid = "broken";
  EXPECT_EQ(*SidecarUserOf({one, other}, ns), (kube::SidecarUser{1000, 100}));
}

TEST(AllowsFlightRecorderDevices, IsForOnePolicyOfTheNamespaceToSay) {
  ProfilePolicy plain = Policy({"/x"}), allows = plain, elsewhere = plain;
  const NamespaceFacts ns{.name = "ml"};
  allows.flight_recorder_devices = elsewhere.flight_recorder_devices = true;
  elsewhere.namespaces.requirements = {
      {"team", kube::LabelSelector::Requirement::Operator::kIn, {"other"}}};
  EXPECT_FALSE(AllowsFlightRecorderDevices({plain, elsewhere}, ns));
  EXPECT_TRUE(AllowsFlightRecorderDevices({plain, allows}, ns));
  allows.invalid = "broken";
  EXPECT_FALSE(AllowsFlightRecorderDevices({plain, allows}, ns));
}

TEST(Policy, AddressesAreNoBuckets) {
  for (const char* bad :
       {"s3://169.254.169.254/latest", "s3://127.0.0.1/x", "s3://2130706433/x", "s3://0x7f000001/x",
        "gs://localhost/x", "gs://LOCALHOST./x", "gs://metadata.google.internal/x",
        "s3://minio.storage.svc/x", "s3://minio.storage.svc.cluster.local/x", "az://a.local/x",
        "s3://b/p?endpoint=http://169.254.169.254", "s3://user:pw@b/p", "http://10.0.0.1/x",
        "https://b/p", "s3://[::1]/x", "gopher://b/x", "s3://b/p#f", "file://host/p"}) {
    EXPECT_FALSE(CheckLogdirIsNoAddress(bad).ok()) << bad;
    EXPECT_EQ(Judge(Policy({bad, "s3://b", "gs://b"}), bad), Kind::kRefused) << bad;
  }
  for (const char* good : {"gs://bucket/x", "s3://my.dotted.bucket/x", "az://container", "/data"})
    EXPECT_TRUE(CheckLogdirIsNoAddress(good).ok()) << good;
}

TEST(Policy, LimitsAreNamed) {
  ProfilePolicy policy = Policy({"gs://b"});
  policy.max_duration = seconds(10);
  capture::Spec capture = Capture("gs://b");
  capture.duration = seconds(11);
  EXPECT_THAT(JudgeByPolicies({policy}, {"ml", {}}, capture, kNow).message,
              HasSubstr("duration 11s is longer than 10s (maxDuration)"));
  capture.duration = seconds(10);
  EXPECT_EQ(JudgeByPolicies({policy}, {"ml", {}}, capture, kNow).kind, Kind::kAllowed);
  EXPECT_EQ(JudgeByPolicies({policy}, {"ml", {}}, capture, kNow).max_duration, seconds(10))
      << "steps are bounded once their pace is known";
  capture.guard = seconds(11);
  EXPECT_THAT(JudgeByPolicies({policy}, {"ml", {}}, capture, kNow).message,
              HasSubstr("start.guard 11s is longer than 10s (maxDuration)"));
  capture.guard = seconds(10);
  // Regression: with maxDuration 2s, a lookBack of 10m was allowed.
  capture.look_back = seconds(11);
  EXPECT_THAT(JudgeByPolicies({policy}, {"ml", {}}, capture, kNow).message,
              HasSubstr("lookBack 11s is longer than 10s (maxDuration)"));
  capture.look_back = seconds(10);
  EXPECT_EQ(JudgeByPolicies({policy}, {"ml", {}}, capture, kNow).kind, Kind::kAllowed);
  policy.max_bytes = 1000;
  EXPECT_EQ(JudgeByPolicies({policy}, {"ml", {}}, capture, kNow).kind, Kind::kRefused);
  capture.max_bytes = 1001;
  EXPECT_EQ(JudgeByPolicies({policy}, {"ml", {}}, capture, kNow).kind, Kind::kRefused);
  capture.max_bytes = 1000;
  EXPECT_EQ(JudgeByPolicies({policy}, {"ml", {}}, capture, kNow).kind, Kind::kAllowed);
}

TEST(Policy, WhatPassesByItselfIsWaitedFor) {
  ProfilePolicy policy = Policy({"gs://b"});
  policy.max_concurrent = 2;
  policy.min_interval = minutes(10);
  const capture::Spec capture = Capture("gs://b");
  EXPECT_EQ(JudgeByPolicies({policy}, {"ml", {}, {1}}, capture, kNow).kind, Kind::kWait)
      << "the interval begins when that one ends";
  EXPECT_EQ(JudgeByPolicies({policy}, {"ml", {}, {0}}, capture, kNow).kind, Kind::kAllowed);
  const Verdict full = JudgeByPolicies({policy}, {"ml", {}, {2}}, capture, kNow);
  EXPECT_EQ(full.kind, Kind::kWait);
  EXPECT_THAT(full.message, HasSubstr("allows 2 captures of this namespace at once"));
  const Verdict soon = JudgeByPolicies({policy}, {"ml", {}, {0}, kNow - minutes(4)}, capture, kNow);
  EXPECT_EQ(soon.kind, Kind::kWait);
  EXPECT_EQ(soon.wait, minutes(6));
  EXPECT_EQ(JudgeByPolicies({policy}, {"ml", {}, {0}, kNow - minutes(10)}, capture, kNow).kind,
            Kind::kAllowed);
}

TEST(Policy, OneThatAllowsAllOfItIsEnough) {
  ProfilePolicy strict = Policy({"gs://b"}), generous = Policy({"gs://c"});
  strict.max_duration = seconds(1);
  generous.name = "other";
  const NamespaceFacts ns{"ml", {}};
  EXPECT_EQ(JudgeByPolicies({strict, generous}, ns, Capture("gs://c"), kNow).kind, Kind::kAllowed);
  const Verdict neither = JudgeByPolicies({strict, generous}, ns, Capture("gs://b"), kNow);
  EXPECT_EQ(neither.kind, Kind::kRefused) << "one allows the place, the other the duration";
  EXPECT_THAT(neither.message, testing::AllOf(HasSubstr("team"), HasSubstr("other")));
}

TEST(Policy, WhatStartsItselfIsBoundedForEachJob) {
  ProfilePolicy policy = Policy({"gs://b"}), other = Policy({"gs://b"});
  other.name = "other";
  policy.automatic.max_concurrent = 1;
  policy.automatic.budget.cool_down = minutes(10);
  const NamespaceFacts ns{"ml", {}};
  const auto judge = [&](const JobRuns* job) {
    return JudgeByPolicies({policy}, ns, Capture("gs://b"), kNow, job);
  };
  JobRuns job{.job = "JobSet/llm"};
  EXPECT_EQ(judge(&job).kind, Kind::kAllowed);
  job.runs.push_back({.name = "slow-1", .created = kNow - minutes(4)});
  EXPECT_EQ(judge(nullptr).kind, Kind::kAllowed) << "a user asks for it";
  EXPECT_EQ(judge(&job).kind, Kind::kUsedUp);
  EXPECT_EQ(judge(&job).message,
            "ProfilePolicy team: automatic.maxConcurrent for JobSet/llm: slow-1 is under way; "
            "available again when it ends");
  job.runs[0].state = kube::RunState::kFailed;
  EXPECT_EQ(judge(&job).message,
            StrCat("ProfilePolicy team: automatic.coolDown for JobSet/llm: slow-1 was started at ",
                   FormatRfc3339(kNow - minutes(4)), "; coolDown is 10m; available again at ",
                   FormatRfc3339(kNow + minutes(6))));
  job.runs[0].created = kNow - minutes(10);
  EXPECT_EQ(judge(&job).kind, Kind::kAllowed);

  job.runs[0].created = kNow;
  EXPECT_EQ(JudgeByPolicies({policy, other}, ns, Capture("gs://b"), kNow, &job).kind,
            Kind::kAllowed)
      << "one that allows all of it is enough";
  other.max_duration = seconds(1);
  EXPECT_EQ(JudgeByPolicies({other, policy}, ns, Capture("gs://b"), kNow, &job).kind, Kind::kUsedUp)
      << "which passes, and the duration does not";
  policy.allowed_logdirs = {"gs://c"};
  EXPECT_EQ(judge(&job).kind, Kind::kRefused);
  EXPECT_TRUE(BoundsStarts({other, policy}, ns));
  EXPECT_FALSE(BoundsStarts({other}, ns));
}

TEST(Policy, SelectsNamespacesByTheirLabels) {
  ProfilePolicy policy = Policy({"gs://b"});
  policy.namespaces.requirements = {
      {"team", kube::LabelSelector::Requirement::Operator::kIn, {"ml"}}};
  EXPECT_EQ(JudgeByPolicies({policy}, {"a", {{"team", "ml"}}}, Capture("gs://b"), kNow).kind,
            Kind::kAllowed);
  EXPECT_EQ(JudgeByPolicies({policy}, {"a", {{"team", "x"}}}, Capture("gs://b"), kNow).kind,
            Kind::kRefused);
}

using testing::SizeIs;

const WallTime kPolicyNow{std::chrono::seconds(1'800'000'000)};

ProfilePolicy ReadyPolicy() {
  ProfilePolicy policy;
  policy.name = "team";
  policy.generation = 3;
  policy.allowed_logdirs = {"gs://team/{namespace}", "/mnt/traces"};
  policy.default_logdir = "gs://team/{namespace}/profiles";
  return policy;
}

kube::Condition ReadyOf(const ProfilePolicy& policy) {
  const std::vector<kube::Condition> conditions = PolicyConditions(policy, kPolicyNow);
  EXPECT_THAT(conditions, SizeIs(1));
  EXPECT_EQ(conditions.front().type, "Ready");
  EXPECT_EQ(conditions.front().observed_generation, policy.generation);
  return conditions.front();
}

TEST(PolicyStatus, IsReadyWhenItCanBeUsedAsWritten) {
  const kube::Condition ready = ReadyOf(ReadyPolicy());
  EXPECT_EQ(ready.status, kube::ConditionStatus::kTrue);
  EXPECT_EQ(ready.reason, "Valid");
  EXPECT_EQ(ready.since, kPolicyNow);
}

TEST(PolicyStatus, TellsWhichFieldIsWrong) {
  ProfilePolicy policy = ReadyPolicy();
  policy.invalid = "namespaceSelector.matchLabels: bad key";
  EXPECT_EQ(ReadyOf(policy).reason, "InvalidSpec");
  EXPECT_THAT(ReadyOf(policy).message, HasSubstr("namespaceSelector.matchLabels: bad key"));
  policy = ReadyPolicy();
  policy.allowed_logdirs.push_back("s3://localhost/x");
  EXPECT_EQ(ReadyOf(policy).status, kube::ConditionStatus::kFalse);
  EXPECT_EQ(ReadyOf(policy).reason, "InvalidLogdir");
  EXPECT_THAT(ReadyOf(policy).message, HasSubstr("allowedLogdirs[2]: "));
  policy = ReadyPolicy();
  policy.default_logdir = "gs://team/profiles";
  EXPECT_EQ(ReadyOf(policy).reason, "InvalidDefaultLogdir");
  policy.default_logdir.clear();
  EXPECT_EQ(ReadyOf(policy).reason, "Valid");
}

TEST(PolicyStatus, KeepsTheTimeOfTheLastTransition) {
  ProfilePolicy policy = ReadyPolicy();
  policy.conditions = PolicyConditions(policy, kPolicyNow);
  const WallTime later = kPolicyNow + std::chrono::hours(1);
  EXPECT_EQ(PolicyConditions(policy, later), policy.conditions) << "nothing has to be written";
  ++policy.generation;
  EXPECT_EQ(PolicyConditions(policy, later).front().since, kPolicyNow);
  EXPECT_NE(PolicyConditions(policy, later), policy.conditions) << "another generation";
  policy.allowed_logdirs = {"nonsense"};
  EXPECT_EQ(PolicyConditions(policy, later).front().since, later);
}

TEST(Policy, ReadingEvidenceCanBeForbiddenAndWaitsForNobody) {
  ProfilePolicy policy = Policy({"gs://team"});
  policy.max_concurrent = 1;
  policy.min_interval = hours(1);
  policy.max_bytes = 1000;
  capture::Spec evidence = Capture("gs://team/x");
  evidence.collects_evidence = true;
  evidence.duration = Nanos{0};
  const NamespaceFacts busy{.name = "ml", .earlier = {.active = 3, .ahead = 2}, .last_end = kNow};
  EXPECT_EQ(JudgeByPolicies({policy}, busy, evidence, kNow).kind, Kind::kAllowed);
  policy.evidence = false;
  const Verdict verdict = JudgeByPolicies({policy}, busy, evidence, kNow);
  EXPECT_EQ(verdict.kind, Kind::kRefused);
  EXPECT_THAT(verdict.message, HasSubstr("evidence of stalls is not allowed"));
  policy.max_concurrent.reset();
  policy.min_interval.reset();
  policy.max_bytes.reset();
  EXPECT_EQ(JudgeByPolicies({policy}, busy, Capture("gs://team/x"), kNow).kind, Kind::kAllowed)
      << "traces are not evidence";
}

using namespace std::chrono_literals;
using Json = nlohmann::json;

ProfilePolicy ParsedPolicy(const char* automatic) {
  return ParsePolicy(
      {{"metadata", {{"name", "team"}}},
       {"spec", {{"allowedLogdirs", {"/logs"}}, {"automatic", Json::parse(automatic)}}}});
}

TEST(PolicyJson, BoundsOfCapturesThatStartThemselvesAreRead) {
  const ProfilePolicy policy = ParsedPolicy(R"({"coolDown": "10m", "capturesPerDay": 48,
      "dutyCycle": "0.5%", "bytesPerDay": "20Gi", "maxConcurrent": 1, "keep": {"runs": 50, "for": "720h"}})");
  EXPECT_EQ(policy.invalid, "");
  const AutomaticLimits& limits = policy.automatic;
  EXPECT_EQ(limits.budget.cool_down, 10min);
  EXPECT_EQ(limits.budget.captures_per_day, 48);
  EXPECT_DOUBLE_EQ(*limits.budget.duty_cycle, 0.005);
  EXPECT_EQ(limits.budget.bytes_per_day, 20ULL << 30);
  EXPECT_EQ(limits.max_concurrent, 1);
  EXPECT_EQ(limits.keep_runs, 50u);
  EXPECT_EQ(limits.keep_for, 720h);
}

TEST(PolicyJson, WithoutBoundsNothingIsBounded) {
  for (const AutomaticLimits& limits :
       {ParsedPolicy("{}").automatic, ParsedPolicy(R"({"keep": {"runs": 1}})").automatic}) {
    EXPECT_FALSE(limits.bounds_starts());
    EXPECT_FALSE(limits.budget.any());
  }
  EXPECT_TRUE(ParsedPolicy(R"({"maxConcurrent": 1})").automatic.bounds_starts());
}

// The schema refuses these, but an older one may be installed.
TEST(PolicyJson, ABoundThatIsWrongAllowsNothingAndIsNamed) {
  for (const auto& [automatic, words] : std::vector<std::pair<const char*, const char*>>{
           {R"({"coolDown": "1s"})", "automatic.coolDown: it must be from 10s to 24h"},
           {R"({"capturesPerDay": 0})", "automatic.capturesPerDay"},
           {R"({"dutyCycle": "0.5"})", "automatic.dutyCycle"},
           {R"({"bytesPerDay": "many"})", "automatic.bytesPerDay"},
           {R"({"maxConcurrent": 0})", "automatic.maxConcurrent"},
           {R"({"keep": {"runs": 0}})", "automatic.keep.runs"},
           {R"({"keep": {"runs": -1}})", "automatic.keep.runs"},
           {R"({"keep": {"for": "30s"}})", "automatic.keep.for"},
           {R"({"keep": {"for": 5}})", "wrong type"},
           {R"({"capturesPerDay": "many"})", "wrong type"},
           {R"([])", "wrong type"}}) {
    EXPECT_THAT(ParsedPolicy(automatic).invalid, HasSubstr(words)) << automatic;
  }
}

}  // namespace
}  // namespace strobe::policy
