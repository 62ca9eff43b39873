// Which signs a ProfileTrigger asks workers for, and what a sign that is told means. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "operator/base/job_kinds.h"
#include "operator/job/pod.h"
#include "operator/trigger/alert.h"
#include "operator/trigger/sign.h"
#include "operator/trigger/trigger.h"

namespace strobe::trigger {

// What must be known of a worker's pod; a whole PodInfo is larger.
struct SignWorker {
  std::string name{}, uid{};
  std::map<std::string, std::string> labels{};
  kube::JobRef job{};
};
SignWorker SignWorkerOf(const job::PodInfo& pod);

// Whether the trigger asks the worker for signs: its template has no target, or the worker is in
// it.
bool AsksForSigns(const ProfileTrigger& trigger, const SignWorker& worker);

// The trigger's rules. None while it starts nothing.
std::vector<SignRule> RulesOf(const ProfileTrigger& trigger);

// The rule with this id; none if it is no rule of the trigger.
std::optional<SignRule> FindRule(const ProfileTrigger& trigger, const std::string& id);

// The sign as a firing alert of the worker; the alert's name is that of the kind.
Alert AlertOfSign(const SignRule& rule, const ReportedSign& sign, const SignWorker& worker,
                  WallTime now);

}  // namespace strobe::trigger
