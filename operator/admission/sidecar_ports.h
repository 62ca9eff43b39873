// Chooses the ports of a pod's sidecar. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "operator/admission/inject.h"
#include "operator/admission/pod_annotations.h"

namespace strobe::admission {

// True for pods that share the network of their node.
bool UsesHostNetwork(const nlohmann::json& spec);

struct SidecarPorts {
  // Where captures are served. The sidecar takes the first one that is free; there is a choice only
  // on the host's network, where the other programs of the node are not known.
  std::vector<int> captures{};
  int metrics = 0;          // 0 = no such server.
  int compat = 0;           // For stock clients within the pod; 0 = no such server.
  std::string framework{};  // The trainer's profiler servers: "localhost:9012,localhost:9013".
};

// The ports that annotations ask for, otherwise ports that no other container of the pod declares.
//
// On the host's network and with TLS, only ports that annotations ask for are fixed. The API server
// would make every declared port of such a pod a port of its node, and the scheduler would place
// one pod of each kind per node (SetDefaults_Pod in pkg/apis/core/v1/defaults.go and GetHostPorts
// in pkg/scheduler/util/utils.go of Kubernetes 1.34). `seed` makes the choices of pods differ.
SidecarPorts ChoosePorts(const nlohmann::json& spec, const InjectionSettings& settings,
                         const std::string& framework_ports, const std::string& seed,
                         PodAnnotations& annotations);

// The ports that the container declares: the fixed ones.
nlohmann::json DeclaredPorts(const SidecarPorts& ports);

}  // namespace strobe::admission
