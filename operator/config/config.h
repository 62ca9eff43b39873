// What the operator can be told in its configuration file. Flags override it.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/base/clock.h"

namespace strobe {

struct LeaseConfig {
  bool enabled = true;
  std::string space{};  // Empty = the namespace of the credentials.
  std::string name = "strobe-operator";
  Nanos duration = std::chrono::seconds(15);
  Nanos renew_deadline = std::chrono::seconds(10);
  Nanos retry_period = std::chrono::seconds(2);
};

struct OperatorConfig {
  std::string http_listen = "0.0.0.0:8080";  // /metrics, /healthz, /readyz.
  std::string watch_namespace{};             // Empty = all.
  Nanos watch_timeout = std::chrono::seconds(290);
  int workers = 4;                  // Requests reconciled at once.
  bool insecure_plaintext = false;  // Talk to sidecars without TLS.
  LeaseConfig lease{};
  std::string log_level = "info", log_format = "text";
};

// Errors read "FILE:LINE:COLUMN: ...".
absl::StatusOr<OperatorConfig> ParseConfig(std::string_view text, std::string_view file);
absl::StatusOr<OperatorConfig> LoadConfig(const std::string& file);

}  // namespace strobe
