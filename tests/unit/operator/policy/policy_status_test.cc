#include "operator/policy/policy_status.h"

#include <gmock/gmock.h>

namespace strobe {
namespace {

using testing::HasSubstr;
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

Condition ReadyOf(const ProfilePolicy& policy) {
  const std::vector<Condition> conditions = PolicyConditions(policy, kPolicyNow);
  EXPECT_THAT(conditions, SizeIs(1));
  EXPECT_EQ(conditions.front().type, "Ready");
  EXPECT_EQ(conditions.front().observed_generation, policy.generation);
  return conditions.front();
}

TEST(PolicyStatus, IsReadyWhenItCanBeUsedAsWritten) {
  const Condition ready = ReadyOf(ReadyPolicy());
  EXPECT_EQ(ready.status, ConditionStatus::kTrue);
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
  EXPECT_EQ(ReadyOf(policy).status, ConditionStatus::kFalse);
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

}  // namespace
}  // namespace strobe
