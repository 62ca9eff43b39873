#include "operator/admission/quota_scopes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "operator/admission/limits_json.h"
#include "operator/base/json_members.h"
#include "operator/job/pod_containers.h"

namespace strobe {
namespace {

using Json = nlohmann::json;

using kube::Member;
using kube::TextOf;

bool Terminates(const Json& spec) {
  const Json& deadline = Member(spec, "activeDeadlineSeconds");
  return deadline.is_number() && deadline.get<double>() >= 0;
}

bool IsCrossNamespaceTerm(const Json& term) {
  // An empty selector is there too: it selects all namespaces.
  return !Member(term, "namespaces").empty() || !Member(term, "namespaceSelector").is_null();
}

bool UsesCrossNamespaceAffinity(const Json& spec) {
  for (const char* kind : {"podAffinity", "podAntiAffinity"}) {
    const Json& affinity = Member(Member(spec, "affinity"), kind);
    for (const Json& term : Member(affinity, "requiredDuringSchedulingIgnoredDuringExecution")) {
      if (IsCrossNamespaceTerm(term)) return true;
    }
    for (const Json& term : Member(affinity, "preferredDuringSchedulingIgnoredDuringExecution")) {
      if (IsCrossNamespaceTerm(Member(term, "podAffinityTerm"))) return true;
    }
  }
  return false;
}

// The operators are those of label selectors, where a pod without a class has no such label.
bool MatchesPriority(const QuotaScope& scope, const std::string& priority) {
  const bool listed =
      std::find(scope.values.begin(), scope.values.end(), priority) != scope.values.end();
  if (scope.op == "Exists") return !priority.empty();
  if (scope.op == "DoesNotExist") return priority.empty();
  if (scope.op == "In") return !priority.empty() && listed;
  return scope.op == "NotIn" && (priority.empty() || !listed);
}

// Kubernetes looks at the operator of priority classes only, and stores the other scopes with
// Exists only.
bool MatchesScope(const QuotaScope& scope, const Json& spec, bool best_effort) {
  if (scope.name == "Terminating") return Terminates(spec);
  if (scope.name == "NotTerminating") return !Terminates(spec);
  if (scope.name == "BestEffort") return best_effort;
  if (scope.name == "NotBestEffort") return !best_effort;
  if (scope.name == "PriorityClass")
    return MatchesPriority(scope, TextOf(spec, "priorityClassName"));
  return scope.name == "CrossNamespacePodAffinity" && UsesCrossNamespaceAffinity(spec);
}

}  // namespace

bool QuotaCounts(const Quota& quota, const Json& spec, bool best_effort) {
  return std::all_of(quota.scopes.begin(), quota.scopes.end(), [&](const QuotaScope& scope) {
    return MatchesScope(scope, spec, best_effort);
  });
}

bool IsBestEffort(const Json& spec) {
  if (!Member(spec, "resources").empty()) return false;
  const std::vector<const Json*> containers = OtherContainers(spec);
  return std::none_of(containers.begin(), containers.end(), [](const Json* container) {
    const Json& resources = Member(*container, "resources");
    for (const char* kind : {"requests", "limits"}) {
      for (const char* resource : {"cpu", "memory"}) {
        if (kube::AmountOf(Member(Member(resources, kind), resource)).value_or(0) > 0) return true;
      }
    }
    return false;
  });
}

}  // namespace strobe
