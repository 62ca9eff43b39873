#include "operator/admission/resource_range.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/strings.h"
#include "operator/admission/namespace_limits.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/job/pod.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;

using kube::Member;
using kube::TextOf;

bool Terminates(const Json& spec) {
  const Json& deadline = kube::Member(spec, "activeDeadlineSeconds");
  return deadline.is_number() && deadline.get<double>() >= 0;
}

bool IsCrossNamespaceTerm(const Json& term) {
  // An empty selector is there too: it selects all namespaces.
  return !kube::Member(term, "namespaces").empty() ||
         !kube::Member(term, "namespaceSelector").is_null();
}

bool UsesCrossNamespaceAffinity(const Json& spec) {
  for (const char* kind : {"podAffinity", "podAntiAffinity"}) {
    const Json& affinity = kube::Member(kube::Member(spec, "affinity"), kind);
    for (const Json& term :
         kube::Member(affinity, "requiredDuringSchedulingIgnoredDuringExecution")) {
      if (IsCrossNamespaceTerm(term)) return true;
    }
    for (const Json& term :
         kube::Member(affinity, "preferredDuringSchedulingIgnoredDuringExecution")) {
      if (IsCrossNamespaceTerm(kube::Member(term, "podAffinityTerm"))) return true;
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
    return MatchesPriority(scope, kube::TextOf(spec, "priorityClassName"));
  return scope.name == "CrossNamespacePodAffinity" && UsesCrossNamespaceAffinity(spec);
}

double At(const Amounts& amounts, const std::string& resource, double otherwise) {
  const auto found = amounts.find(resource);
  return found == amounts.end() ? otherwise : found->second;
}

// The pod's sum of a resource without our sidecar. `kind` is "requests" or "limits".
double SumOf(const Json& spec, const char* kind, const std::string& resource) {
  const auto of = [&](const Json& container) {
    const Json& resources = kube::Member(container, "resources");
    const std::optional<double> amount =
        AmountOf(kube::Member(kube::Member(resources, kind), resource));
    // The API server sets a missing request to the limit.
    if (!amount && std::string_view(kind) == "requests")
      return AmountOf(kube::Member(kube::Member(resources, "limits"), resource)).value_or(0);
    return amount.value_or(0);
  };
  // Pod-level values replace the sums.
  const Json& own = kube::Member(kube::Member(spec, "resources"), kind);
  if (const std::optional<double> whole = AmountOf(kube::Member(own, resource))) return *whole;
  double running = 0, sidecars = 0, starting = 0;
  for (const Json& container : kube::Member(spec, "containers")) running += of(container);
  const Json& inits = kube::Member(spec, "initContainers");
  for (std::size_t i = 0; inits.is_array() && i < inits.size(); ++i) {
    if (kube::TextOf(inits[i], "name") == kube::kSidecarContainer) continue;
    if (kube::TextOf(inits[i], "restartPolicy") == "Always")
      sidecars += of(inits[i]);
    else
      starting = std::max(starting, sidecars + of(inits[i]));
  }
  // An init container runs before our sidecar, which is the last.
  return std::max(running + sidecars, starting);
}

// Returns what `others` leave of `most`; infinite if they alone exceed it.
double Left(double most, double others) {
  return others > most ? std::numeric_limits<double>::infinity() : most - others;
}

void ApplyQuota(const Quota& quota, const Json& spec, const std::string& resource,
                ResourceRange& range) {
  const std::string limit = StrCat("limits.", resource), request = StrCat("requests.", resource);
  // A quota demands a value of every container for CPU and memory only. Storage is counted where it
  // is set.
  range.demanded |= resource != kStorage && quota.hard.contains(limit);
  const auto left = [&](const std::string& name, const char* kind) {
    const auto hard = quota.hard.find(name);
    if (hard == quota.hard.end()) return std::numeric_limits<double>::infinity();
    const double sum = SumOf(spec, kind, resource), free = hard->second - At(quota.used, name, 0);
    // A quota whose use is already too high accepts pods that add nothing to it, and such a pod
    // must not be refused for what we add.
    return sum > 0 ? Left(free, sum) : std::max(free, 0.0);
  };
  range.max_limit = std::min(range.max_limit, left(limit, "limits"));
  range.max_request =
      std::min({range.max_request, left(request, "requests"), left(resource, "requests")});
}

// True if all containers but our sidecar have a request, or a limit, of the resource.
bool AllHave(const Json& spec, bool limit, const std::string& resource) {
  const std::vector<const Json*> containers = job::OtherContainers(spec);
  return std::all_of(containers.begin(), containers.end(), [&](const Json* container) {
    const Json& resources = kube::Member(*container, "resources");
    if (!kube::Member(kube::Member(resources, "limits"), resource).is_null()) return true;
    // The API server sets a missing request to the limit.
    return !limit && !kube::Member(kube::Member(resources, "requests"), resource).is_null();
  });
}

// Why the quota would refuse the pod even if the sidecar used nothing; empty if it would not.
std::string Objection(const Quota& quota, const Json& spec) {
  for (const auto& [name, hard] : quota.hard) {
    const bool limit = name.starts_with("limits.");
    const std::string resource =
        limit || name.starts_with("requests.") ? name.substr(name.find('.') + 1) : name;
    // The API server demands these two of every container (Constraints in
    // pkg/quota/v1/evaluator/core/pods.go of Kubernetes 1.34).
    if ((resource == "cpu" || resource == "memory") && !AllHave(spec, limit, resource))
      return StrCat("demands ", name, " of every container");
    const double adds = name == "pods" || name == "count/pods"
                            ? 1
                            : SumOf(spec, limit ? "limits" : "requests", resource);
    // The API server compares only what the pod adds to (CheckRequest in
    // apiserver/pkg/admission/plugin/resourcequota/controller.go of Kubernetes 1.34).
    if (adds > 0 && At(quota.used, name, 0) + adds > hard) return StrCat("has no room for ", name);
  }
  return "";
}

void ApplyRule(const LimitRule& rule, const Json& spec, const std::string& resource,
               ResourceRange& range) {
  const auto max = rule.max.find(resource);
  const auto ratio = rule.max_ratio.find(resource);
  // Holds also where the rule is about the pod's sums: a container that keeps the ratio itself does
  // not raise the ratio of the sums.
  if (ratio != rule.max_ratio.end()) range.max_ratio = std::min(range.max_ratio, ratio->second);
  range.demanded |= ratio != rule.max_ratio.end();
  if (rule.whole_pod) {
    if (max == rule.max.end()) return;
    range.max_limit = std::min(range.max_limit, Left(max->second, SumOf(spec, "limits", resource)));
    range.max_request =
        std::min(range.max_request, Left(max->second, SumOf(spec, "requests", resource)));
    return;
  }
  range.min = std::max(range.min, At(rule.min, resource, 0));
  if (max != rule.max.end()) {
    range.max_limit = std::min(range.max_limit, max->second);
    range.max_request = std::min(range.max_request, max->second);
  }
  // A default would become our limit, and may be below our request, so we set a limit ourselves.
  range.demanded |=
      max != rule.max.end() || rule.min.contains(resource) || rule.defaults.contains(resource);
}

}  // namespace

bool QuotaCounts(const Quota& quota, const Json& spec, bool best_effort) {
  return std::all_of(quota.scopes.begin(), quota.scopes.end(), [&](const QuotaScope& scope) {
    return MatchesScope(scope, spec, best_effort);
  });
}

bool IsBestEffort(const Json& spec) {
  if (!kube::Member(spec, "resources").empty()) return false;
  const std::vector<const Json*> containers = job::OtherContainers(spec);
  return std::none_of(containers.begin(), containers.end(), [](const Json* container) {
    const Json& resources = kube::Member(*container, "resources");
    for (const char* kind : {"requests", "limits"}) {
      for (const char* resource : {"cpu", "memory"}) {
        if (AmountOf(kube::Member(kube::Member(resources, kind), resource)).value_or(0) > 0)
          return true;
      }
    }
    return false;
  });
}

ResourceRange RangesOf::operator()(const std::string& resource) const {
  ResourceRange range;
  for (const LimitRule& rule : limits_.rules) ApplyRule(rule, spec_, resource, range);
  for (const Quota& quota : limits_.quotas) {
    // A pod with our sidecar has a memory limit, so that it is never of the class BestEffort.
    if (QuotaCounts(quota, spec_, /*best_effort=*/false)) ApplyQuota(quota, spec_, resource, range);
  }
  return range;
}

std::string RangesOf::WhyRefused() const {
  if (!IsBestEffort(spec_)) return "";
  for (const Quota& quota : limits_.quotas) {
    // A quota that counts the pod without us refuses it in any case.
    if (QuotaCounts(quota, spec_, /*best_effort=*/true) ||
        !QuotaCounts(quota, spec_, /*best_effort=*/false))
      continue;
    if (const std::string why = Objection(quota, spec_); !why.empty())
      return StrCat("with the sidecar the pod would no longer be BestEffort, and ResourceQuota ",
                    quota.name, " ", why);
  }
  return "";
}

std::optional<ChosenAmounts> ChooseAmounts(const ResourceRange& range, double request,
                                           std::optional<double> limit, bool equal) {
  if (equal && !limit) limit = request;
  if (!limit) {
    request = std::clamp(request, range.min, std::max(range.min, range.max_request));
    if (request > range.max_request) return std::nullopt;
    return ChosenAmounts{request, std::nullopt};
  }
  double bound = std::min(std::max({*limit, range.min, equal ? 0 : request}), range.max_limit);
  if (equal) {
    bound = std::min(bound, range.max_request);
  } else if (range.max_ratio < std::numeric_limits<double>::infinity()) {
    // If the request cannot be raised far enough, the limit is lowered.
    bound = std::min(bound, range.max_request * range.max_ratio);
  }
  request = equal ? bound : std::min(std::max(request, range.min), range.max_request);
  request = std::min(std::max(request, bound / range.max_ratio), bound);
  if (bound < range.min || request < range.min || request > range.max_request) return std::nullopt;
  return ChosenAmounts{request, bound};
}

}  // namespace strobe::admission
