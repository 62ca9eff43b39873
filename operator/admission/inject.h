// Computes what injection adds to a pod: the sidecar, its volumes and a few environment variables.
// Pure.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "operator/admission/namespace_limits.h"

namespace strobe::admission {

// A key of a Secret or ConfigMap in the pod's namespace. None if both names are empty.
struct InjectedFile {
  std::string secret{}, config_map{}, key{};
};

// How a pod gets its sidecar.
enum class InjectionMode {
  // As an init container with restartPolicy Always: it starts before the trainer and ends after it.
  // The trainer does not start while the sidecar's image cannot be pulled.
  kNative,
  // As an ordinary container, in pods that never complete. The trainer waits for nothing.
  kContainer,
};

struct InjectionSettings {
  InjectionMode mode = InjectionMode::kNative;
  std::string image{};
  std::string pull_policy{};  // Empty for Kubernetes' default.
  // Written on the pod for `kubectl strobe view`; empty to write none.
  std::string viewer_image{};
  // The sidecar's resource requests; "0" for none. In a pod of QoS class Guaranteed, its limits
  // equal its requests, and none of them is 0.
  std::string cpu = "50m", memory = "128Mi";
  std::string memory_limit = "2Gi";  // A trace is held in memory.
  // The sidecar's CPU limit. It is set where a ResourceQuota or LimitRange demands one, or always,
  // because policy engines may demand one too and cannot be asked.
  std::string cpu_limit = "1";
  bool always_limit_cpu = false;
  std::string spool_size = "2Gi";
  // The size of the memory volume that trainer and sidecar share.
  std::string agent_memory = "512Mi";
  // The sidecar's user and group. Unset for the namespace's own range, as in OpenShift.
  std::optional<std::int64_t> user = 65532;
  int framework_port = 9012, metrics_port = 9472;
  // Sidecars on the host's network serve captures on ports of this range.
  int first_host_port = 20000, last_host_port = 29999;
  // The sidecar's request for local disk, as a quantity; empty for none.
  std::string ephemeral_storage{};
  // Secrets of the pod's namespace, with which the kubelet can pull the sidecar's image.
  std::vector<std::string> pull_secrets{};
  // More variables of the sidecar, as EnvVar objects.
  nlohmann::json environment = nlohmann::json::array();
  // A Secret whose keys become variables of the sidecar, for pods without an annotation for it.
  std::string storage_secret{};
  // The storage configuration, and the authorities of the stores' certificates.
  InjectedFile storage_config{}, storage_ca{};
  // What is not changed in trainers, for pods without an annotation for it; see trainer_changes.h.
  std::vector<std::string> disabled{};
  std::string enrollment{};  // host:port of the operator's enrollment service; empty for no TLS.
  std::string log_level = "info";
};

// What injection knows beside the pod and the settings.
struct InjectionContext {
  std::string roots{};       // PEM bundle of the authorities that the sidecar trusts.
  NamespaceLimits limits{};  // What the pod's namespace demands, as far as it is known.
  std::string seed{};        // A text that differs from pod to pod.
  // host:port of the enrollment service without a name to resolve; empty if it is not known.
  std::string enrollment_address{};
};

struct Injection {
  // An RFC 6902 patch that only adds; empty if there is nothing to do. For a pod that should be
  // injected and cannot be, it adds the reason as an annotation.
  nlohmann::json patch = nlohmann::json::array();
  std::vector<std::string> warnings{};  // For example, annotations with invalid values.
  std::string skipped{};                // The reason why the pod is not injected; empty if it is.
};

// For a pod that was injected before the patch is empty, because other webhooks may make the API
// server call again. Parts that other webhooks have removed are restored. The user's fields are not
// changed.
Injection Inject(const nlohmann::json& pod, const InjectionSettings& settings,
                 const InjectionContext& context);

// Why the pod is not injected, as far as the pod alone tells; empty if it is.
std::string WhyNotInjected(const nlohmann::json& pod);
// The defect of the injection of a pod that is about to be stored; empty if there is none, or if
// the pod was not injected on purpose. "lost": there is no sidecar. "modified: ...": the sidecar
// cannot work.
std::string InjectionDamage(const nlohmann::json& pod);

}  // namespace strobe::admission
