#include "operator/access/policy_keeper.h"

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/policy/policy.h"
#include "operator/policy/policy_json.h"

namespace strobe::kube {

PolicyKeeper::PolicyKeeper(const Clock& clock, Client& client, Nanos watch_timeout)
    : clock_(clock),
      client_(client),
      queue_(clock),
      reflector_(clock, client, {PoliciesPath(), watch_timeout, nullptr}, cache_,
                 [this](const std::string& key) { queue_.Add(key); }) {}

void PolicyKeeper::Start() {
  threads_ = std::make_unique<ReconcileThreads>(
      clock_, 1, queue_, [this](const std::string& key) { return Reconcile(key); },
      [](const std::string&, Nanos) {});
  reflector_.Start();
}

absl::StatusOr<ReconcileResult> PolicyKeeper::Reconcile(const std::string& key) {
  const Object object = cache_.Get(key);
  if (object == nullptr) return ReconcileResult{};
  const ProfilePolicy policy = ParsePolicy(*object);
  const std::vector<Condition> conditions = PolicyConditions(policy, clock_.WallNow());
  if (conditions == policy.conditions) return ReconcileResult{};
  const absl::Status written = client_
                                   .Apply(StrCat(PoliciesPath(), "/", policy.name, "/status"),
                                          PolicyStatusToJson(policy, conditions))
                                   .status();
  // A policy that was deleted or changed meanwhile comes again by the watch.
  if (!absl::IsNotFound(written) && !absl::IsAborted(written)) RETURN_IF_ERROR(written);
  return ReconcileResult{};
}

}  // namespace strobe::kube
