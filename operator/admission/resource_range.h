// The values of one resource that a new container of a pod may have, and which pods a ResourceQuota
// counts. Pure.
#pragma once
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "operator/admission/namespace_limits.h"

namespace strobe::admission {

// Whether the quota counts a pod of, or not of, QoS class BestEffort, as podMatchesScopeFunc in
// pkg/quota/v1/evaluator/core/pods.go of Kubernetes 1.34 decides it. A scope that Kubernetes does
// not know matches no pod. A pod that names no priority class already has the cluster's default
// class here, if there is one: the plugin Priority runs before webhooks (AllOrderedPlugins in
// pkg/kubeapiserver/options/plugins.go).
bool QuotaCounts(const Quota& quota, const nlohmann::json& spec, bool best_effort);

// Whether the pod is of QoS class BestEffort without our sidecar.
bool IsBestEffort(const nlohmann::json& spec);

inline constexpr char kStorage[] = "ephemeral-storage";

struct ResourceRange {
  double min = 0;  // The least request, and the least limit.
  double max_request = std::numeric_limits<double>::infinity();
  double max_limit = std::numeric_limits<double>::infinity();
  double max_ratio =
      std::numeric_limits<double>::infinity();  // The most that limit / request may be.
  bool demanded = false;  // Without a request and a limit the pod would be refused.
};

// The ranges, by resource, for one more container that runs beside the trainers. They follow what
// LimitRanger and ResourceQuota check (plugin/pkg/admission/limitranger and
// pkg/quota/v1/evaluator/core/pods.go of Kubernetes 1.34). A bound that the pod exceeds without us
// is ignored, because the pod is refused in any case.
class RangesOf {
 public:
  RangesOf(const nlohmann::json& spec, const NamespaceLimits& limits)
      : spec_(spec), limits_(limits) {}
  ResourceRange operator()(const std::string& resource) const;
  // Why a ResourceQuota would refuse the pod with any sidecar and accepts it without one; empty if
  // none does. The sidecar's memory limit takes a pod out of the QoS class BestEffort, and quotas
  // with the scope NotBestEffort then count it.
  std::string WhyRefused() const;

 private:
  const nlohmann::json& spec_;
  const NamespaceLimits& limits_;
};

struct ChosenAmounts {
  double request = 0;
  std::optional<double> limit{};
};

// The amounts within the range that are nearest to the request and limit asked for; none if nothing
// fits. With `equal`, request and limit are the same.
std::optional<ChosenAmounts> ChooseAmounts(const ResourceRange& range, double request,
                                           std::optional<double> limit, bool equal);

}  // namespace strobe::admission
