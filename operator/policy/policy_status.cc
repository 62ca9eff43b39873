#include "operator/policy/policy_status.h"

#include <algorithm>

#include "common/base/strings.h"
#include "common/text/utf8.h"

namespace strobe {
namespace {

constexpr std::size_t kMaxMessageBytes = 1024;
// Stands for any namespace.
constexpr char kSomeNamespace[] = "some-namespace";

Condition NotReady(std::string reason, std::string message) {
  Condition condition;
  condition.status = ConditionStatus::kFalse;
  condition.reason = std::move(reason);
  condition.message = CutUtf8(message, kMaxMessageBytes);
  return condition;
}

Condition Judge(const ProfilePolicy& policy) {
  if (!policy.invalid.empty())
    return NotReady("InvalidSpec", StrCat(policy.invalid, "; the policy allows nothing"));
  std::vector<std::string> allowed;
  for (std::size_t i = 0; i < policy.allowed_logdirs.size(); ++i) {
    allowed.push_back(WithNamespace(policy.allowed_logdirs[i], kSomeNamespace));
    if (const absl::Status good = CheckLogdirIsNoAddress(allowed.back()); !good.ok()) {
      return NotReady("InvalidLogdir", StrCat("allowedLogdirs[", i, "]: ", MessageOf(good),
                                              "; the policy allows nothing"));
    }
  }
  const std::string preset = WithNamespace(policy.default_logdir, kSomeNamespace);
  if (!preset.empty() && std::none_of(allowed.begin(), allowed.end(),
                                      [&](const auto& one) { return IsBelow(preset, one); }))
    return NotReady("InvalidDefaultLogdir", "defaultLogdir is not below any of allowedLogdirs");
  Condition condition;
  condition.status = ConditionStatus::kTrue;
  condition.reason = "Valid";
  condition.message = "this policy applies to captures in the selected namespaces";
  return condition;
}

}  // namespace

std::vector<Condition> PolicyConditions(const ProfilePolicy& policy, WallTime now) {
  Condition ready = Judge(policy);
  ready.type = condition::kReady;
  ready.observed_generation = policy.generation;
  SetSince(policy.conditions, now, ready);
  return {std::move(ready)};
}

}  // namespace strobe
