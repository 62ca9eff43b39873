#include "operator/access/policy_keeper.h"

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/policy/policy.h"

namespace strobe::access {

PolicyKeeper::PolicyKeeper(const Clock& clock, kube::Client& client, Nanos watch_timeout)
    : clock_(clock),
      client_(client),
      queue_(clock),
      reflector_(clock, client, {policy::PoliciesPath(), watch_timeout, nullptr}, cache_,
                 [this](const std::string& key) { queue_.Add(key); }) {}

void PolicyKeeper::Start() {
  threads_ = std::make_unique<kube::ReconcileThreads>(
      clock_, 1, queue_, [this](const std::string& key) { return Reconcile(key); },
      [](const std::string&, Nanos) {});
  reflector_.Start();
}

absl::StatusOr<kube::ReconcileResult> PolicyKeeper::Reconcile(const std::string& key) {
  const kube::Object object = cache_.Get(key);
  if (object == nullptr) return kube::ReconcileResult{};
  const policy::ProfilePolicy policy = policy::ParsePolicy(*object);
  const std::vector<kube::Condition> conditions =
      policy::PolicyConditions(policy, clock_.WallNow());
  if (conditions == policy.conditions) return kube::ReconcileResult{};
  const absl::Status written =
      client_
          .Apply(StrCat(policy::PoliciesPath(), "/", policy.name, "/status"),
                 policy::PolicyStatusToJson(policy, conditions))
          .status();
  // A policy that was deleted or changed meanwhile comes again by the watch.
  if (!absl::IsNotFound(written) && !absl::IsAborted(written)) RETURN_IF_ERROR(written);
  return kube::ReconcileResult{};
}

}  // namespace strobe::access
