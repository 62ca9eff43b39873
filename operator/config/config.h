// What the operator can be told in its configuration file. Flags override it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe {

struct LeaseConfig {
  bool enabled = true;
  std::string space{};  // Empty = the namespace of the credentials.
  std::string name = "strobe-operator";
  Nanos duration = std::chrono::seconds(15);
  Nanos renew_deadline = std::chrono::seconds(10);
  Nanos retry_period = std::chrono::seconds(2);
};

struct WebhookConfig {
  std::string listen{};                  // Empty = no webhooks.
  std::string configuration = "strobe";  // Our two webhook configurations' name.
  std::string certificate{}, key{};      // PEM files of somebody else's; empty = our own.
  // PEM file of the authorities of which whoever calls must show a certificate, where the API
  // server has been given one for webhooks; empty = nobody is asked.
  std::string client_authority{};
  std::vector<std::string> client_names{};  // Common names that it may have; empty = any.
};

struct TlsConfig {
  std::string enroll_listen = "0.0.0.0:9444";  // Where sidecars get their certificates.
  std::string secret = "strobe-authority";     // There already, maybe empty,
  std::string space{};                         // in this namespace; empty = our own.
  std::string service = "strobe-operator";     // Of our namespace; what others call us by.
  std::vector<std::string> extra_names{};      // More DNS names to be called by.
  Nanos authority_lifetime = std::chrono::hours(365 * 24);
  Nanos settle = std::chrono::hours(24);
  Nanos certificate_lifetime = std::chrono::hours(24);
};

struct InjectionConfig {
  std::string image = "strobe-sidecar";
  std::string pull_policy{};
  std::string cpu = "50m", memory = "128Mi", memory_limit = "2Gi", spool_size = "2GiB",
              agent_memory = "512Mi";
  int user = 65532;  // 0 = none is set: the namespace's own range.
  int framework_port = 9012;
};

struct OperatorConfig {
  std::string http_listen = "0.0.0.0:8080";  // /metrics, /healthz, /readyz.
  std::string watch_namespace{};             // Empty = all.
  Nanos watch_timeout = std::chrono::seconds(290);
  int workers = 8;                  // Requests reconciled at once.
  bool insecure_plaintext = false;  // Talk to sidecars without TLS.
  LeaseConfig lease{};
  WebhookConfig webhook{};
  TlsConfig tls{};
  InjectionConfig injection{};
  // ConfigMap of our namespace that keeps what requests cannot; there already, maybe empty. No
  // name: it is kept in memory.
  std::string state_config_map{};
  // Whether a namespace that no ProfilePolicy matches may have captures.
  bool allow_without_policy = false;
  std::string log_level = "info", log_format = "text";
};

// Errors read "FILE:LINE:COLUMN: ...".
absl::StatusOr<OperatorConfig> ParseConfig(std::string_view text, std::string_view file);
absl::StatusOr<OperatorConfig> LoadConfig(const std::string& file);

}  // namespace strobe
