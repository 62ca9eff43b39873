// The operator's configuration file; docs/reference/chart-values.md describes its keys.
// Flags override it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe::config {

struct LeaseConfig {
  bool enabled = true;
  std::string ns{};  // Empty = the namespace of the credentials.
  std::string name = "strobe-operator";
  Nanos duration = std::chrono::seconds(15);
  Nanos renew_deadline = std::chrono::seconds(10);
  Nanos retry_period = std::chrono::seconds(2);

  bool operator==(const LeaseConfig&) const = default;
};

struct WebhookConfig {
  std::string listen{};                  // Empty = no webhooks.
  std::string configuration = "strobe";  // Name of both our webhook configurations.
  std::string certificate{}, key{};      // PEM files; empty = issued by our own authority.
  // PEM file of the authorities that issue the API server's client certificate, if it has been
  // given one for webhooks; callers without such a certificate are then refused. Empty = no caller
  // is asked for a certificate.
  std::string client_authority{};
  std::vector<std::string> client_names{};  // Common names of it that are accepted; empty = any.
  // How long an ending operator still answers webhooks: the API server goes on calling it until
  // every node has heard that it is not ready any more.
  Nanos drain_time = std::chrono::seconds(5);

  bool operator==(const WebhookConfig&) const = default;
};

struct TlsConfig {
  std::string enroll_listen = "[::]:9444";  // Where sidecars get their certificates.
  std::string secret = "strobe-authority";  // The authorities' Secret; it must exist.
  std::string ns{};                         // The Secret's namespace; empty = our own.
  std::string service = "strobe-operator";  // The Service of our namespace that others call.
  std::vector<std::string> extra_names{};   // Further DNS names for our certificate.
  // See AuthorityRules.
  Nanos authority_lifetime = std::chrono::hours(365 * 24);
  Nanos settle = std::chrono::hours(24);
  Nanos certificate_lifetime = std::chrono::hours(24);

  bool operator==(const TlsConfig&) const = default;
};

// Where Alertmanager posts alerts. Either tokens or client certificates are demanded, or both.
struct AlertReceiverConfig {
  std::string listen{};                    // Empty = alerts are not received.
  std::vector<std::string> token_files{};  // At most two, of which one may be missing.
  // PEM files; certificate and key: empty = issued by our own authority.
  std::string certificate{}, key{}, client_authority{};
  std::vector<std::string> client_names{};  // Common names that are accepted; empty = any.

  bool operator==(const AlertReceiverConfig&) const = default;
};

struct NotifyConfig {
  std::string url{};  // Is told how captures end; empty = no notification. See kube::MakeReceiver.
  std::string format = "CloudEvents";  // Or "Grafana".
  std::string source = "strobe-operator";
  std::string directory{};

  bool operator==(const NotifyConfig&) const = default;
};

// A key of a Secret or ConfigMap in the pod's namespace.
struct InjectedFileConfig {
  std::string secret{}, config_map{};  // At most one of them; both empty = no file.
  std::string key{};

  bool operator==(const InjectedFileConfig&) const = default;
};

// A variable of the sidecar: a value, a key of a Secret or ConfigMap, or a field of the pod.
struct InjectedVariableConfig {
  std::string name{}, value{}, field{};
  InjectedFileConfig from{};

  bool operator==(const InjectedVariableConfig&) const = default;
};

struct InjectionConfig {
  std::string image = "strobe-sidecar";
  std::string pull_policy{};
  std::string viewer_image{};  // For `kubectl strobe view`; empty = it needs --image.
  std::string cpu = "50m", memory = "128Mi", memory_limit = "2Gi", spool_size = "2Gi",
              agent_memory = "512Mi";
  int user = 65532;  // 0 = not set, for clusters that assign users per namespace (OpenShift).
  int framework_port = 9012, metrics_port = 9472;
  std::string cpu_limit = "1";                     // The CPU limit of sidecars that need one.
  bool always_limit_cpu = false;                   // False = only where a namespace demands one.
  std::string mode = "native";                     // Or "container".
  std::string host_network_ports = "20000-29999";  // FIRST-LAST.
  std::string ephemeral_storage{};                 // Empty = no request.
  std::vector<std::string> disable{};              // Names of trainer_changes.h.
  // Everything below names objects in the pods' namespaces.
  std::vector<std::string> image_pull_secrets{};
  std::vector<InjectedVariableConfig> env{};
  std::string storage_secret{};  // For pods without the annotation strobe.dev/storage-secret.
  InjectedFileConfig storage_config{.key = "storage.yaml"}, storage_ca{.key = "ca.crt"};

  bool operator==(const InjectionConfig&) const = default;
};

struct PortRange {
  int first = 0, last = 0;
};
// InvalidArgument if the text is not FIRST-LAST with two ports in order.
absl::StatusOr<PortRange> ParsePortRange(const std::string& text);

struct OperatorConfig {
  std::string http_listen = "[::]:8080";  // /metrics, /healthz, /readyz.
  std::string watch_namespace{};          // Empty = all namespaces.
  Nanos watch_timeout = std::chrono::seconds(290);
  int max_concurrent_reconciles = 8;  // Requests reconciled at once.
  bool insecure_plaintext = false;    // Talk to sidecars without TLS.
  LeaseConfig lease{};
  WebhookConfig webhook{};
  TlsConfig tls{};
  InjectionConfig injection{};
  // ConfigMap of our namespace that remembers when captures ended, beyond the life of their
  // requests. It must exist. Empty = remembered in memory only.
  std::string state_config_map{};
  // Allow captures in namespaces that no ProfilePolicy matches.
  bool allow_without_policy = false;
  NotifyConfig notify{};
  AlertReceiverConfig alert_receiver{};
  std::string viewer_url{};  // Not checked here; see operator/objects/viewer_link.h.
  std::string log_level = "info", log_format = "text";

  bool operator==(const OperatorConfig&) const = default;
};

// InvalidArgument with "FILE:LINE:COLUMN: ..." as its message, or without the place when several
// values do not fit together or the file cannot be read.
absl::StatusOr<OperatorConfig> ParseConfig(std::string_view text, std::string_view file);
absl::StatusOr<OperatorConfig> LoadConfig(const std::string& file);

}  // namespace strobe::config
