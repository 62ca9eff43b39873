// Chooses the resources of a pod's sidecar so that the API server accepts the pod. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "operator/admission/inject.h"
#include "operator/admission/namespace_limits.h"
#include "operator/admission/pod_annotations.h"

namespace strobe::admission {

struct SidecarResources {
  nlohmann::json resources = nlohmann::json::object();
  std::string spool_size{};  // In bytes, as the sidecar's flag takes it.
  std::string cannot{};      // Why no sidecar fits into the namespace's limits; empty if one does.
};

// What settings and annotations ask for, moved into the ranges of the namespace's LimitRanges and
// into what its ResourceQuotas have left. Values that they or the settings demand and that are not
// asked for, such as a CPU limit, are added.
SidecarResources ChooseResources(const nlohmann::json& spec, const InjectionSettings& settings,
                                 const NamespaceLimits& limits, PodAnnotations& annotations,
                                 std::vector<std::string>& warnings);

}  // namespace strobe::admission
