// Which pods a ResourceQuota counts. Pure.
#pragma once
#include <nlohmann/json.hpp>

#include "operator/admission/namespace_limits.h"

namespace strobe {

// Whether the quota counts a pod of, or not of, QoS class BestEffort, as podMatchesScopeFunc in
// pkg/quota/v1/evaluator/core/pods.go of Kubernetes 1.34 decides it. A scope that Kubernetes does
// not know matches no pod. A pod that names no priority class already has the cluster's default
// class here, if there is one: the plugin Priority runs before webhooks (AllOrderedPlugins in
// pkg/kubeapiserver/options/plugins.go).
bool QuotaCounts(const Quota& quota, const nlohmann::json& spec, bool best_effort);

// Whether the pod is of QoS class BestEffort without our sidecar.
bool IsBestEffort(const nlohmann::json& spec);

}  // namespace strobe
