// The configuration file of `strobe serve`; docs/how-to/serve.md describes its
// keys.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "viewer/service/asker.h"

namespace strobe::viewer {

// A logdir and the namespace that it belongs to. The administrator says so, never a manifest:
// everybody who can write to a bucket can write a manifest.
struct ServedLogdir {
  std::string url{}, ns{};
  std::string name{};  // Stands before the names of its runs; by default the namespace.
};

struct ServeTls {
  std::string certificate{}, key{};  // PEM files.
  // PEM file of the authorities that issue the proxy's certificate, and the common names that it
  // may have.
  std::string client_authority{};
  std::vector<std::string> client_names{};
  bool enabled() const { return !certificate.empty(); }
};

struct ServeConfig {
  std::vector<ServedLogdir> logdirs{};
  std::string listen = "127.0.0.1:8081";
  std::string health_listen{};  // Where only /healthz is served, without TLS; empty = nowhere else.
  IdentityHeaders identity{};
  ServeTls tls{};
  std::vector<std::string> hosts{};  // See RouterOptions.
  std::string cache_directory{};     // Empty = indexes stay in memory.
  std::uint64_t cache_bytes = std::uint64_t{16} << 30;
  Nanos access_cache = std::chrono::seconds(30);
  std::string storage_config{};
  int open_runs = 8;
  std::string log_level = "info", log_format = "text";
};

// InvalidArgument with "FILE:LINE:COLUMN: ..." as its message, or without the place when several
// values do not fit together or the file cannot be read.
absl::StatusOr<ServeConfig> ParseServeConfig(std::string_view text, std::string_view file);
absl::StatusOr<ServeConfig> LoadServeConfig(const std::string& file);

}  // namespace strobe::viewer
