// What a pod gets so that it can be profiled: the sidecar, its volumes and a few variables. Pure.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace strobe {

struct InjectionSettings {
  std::string image{};
  std::string pull_policy{};  // Empty = Kubernetes' default.
  // The sidecar's requests; in a pod of class Guaranteed its limits are its requests.
  std::string cpu = "50m", memory = "128Mi";
  std::string memory_limit = "2Gi";  // A trace is in memory once.
  std::string spool_size = "2GiB";
  std::string agent_memory = "512Mi";  // Of the memory volume that trainer and sidecar share.
  // Its user and group; none = the namespace's own range, as OpenShift gives out.
  std::optional<std::int64_t> user = 65532;
  int framework_port = 9012;
  std::string enrollment{};  // host:port of the operator; empty = no TLS.
  std::string log_level = "info";
};

struct Injection {
  nlohmann::json patch = nlohmann::json::array();  // RFC 6902, only `add`; empty = nothing to do.
  std::vector<std::string> warnings{};  // Annotations that could not be heeded, and such.
  std::string skipped{};                // Why the pod gets nothing; empty = it does.
};

// `roots`: PEM of the authorities that the sidecar is to trust. Applied to a pod that has been
// patched, it patches nothing: other webhooks may make the API server ask again. What others took
// away again is put back. Nothing of the user's is changed.
Injection Inject(const nlohmann::json& pod, const InjectionSettings& settings,
                 const std::string& roots);

// What is wrong with the injection of a pod as it is to be stored; empty when it is whole.
// "lost": there is no sidecar. "mutilated: ...": it cannot work.
std::string InjectionDamage(const nlohmann::json& pod);

}  // namespace strobe
