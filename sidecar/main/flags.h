// The flags of strobe-sidecar and their environment variables.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sidecar/source/base/server_risks.h"

namespace CLI {
class App;
}

namespace strobe {

// The help text of each flag, in flags.cc, says what it means.
struct SidecarFlags {
  std::string listen = "[::]:9470";
  std::string compat_listen, http_listen;
  std::string worker_name;

  std::string enroll, enroll_at, roots, state_dir;
  std::string token_file = "/var/run/secrets/strobe/token";
  bool insecure_plaintext = false;

  std::vector<std::string> framework = {"localhost:9012"};
  std::string shared_dir;
  source::ServerRisks risks;
  bool allow_stalls = false;
  std::string kineto_daemon, kineto_max_duration = "2s";
  bool kineto_socket_files = false;

  std::string agent_dir, install_dir;
  bool agent_only_parent = false;
  std::vector<std::string> containers;
  std::string flight_recorder = "0s";
  bool flight_recorder_devices = false;
  std::string tpu_metrics;

  std::string spool_dir, spool_keep = "6h", storage_config;
  std::uint64_t spool_size = 8ull << 30;
  std::uint64_t upload_rate = 0;
  bool trust_logdir_options = false;

  std::string started_file, is_started;
  bool exit_with_parent = false;
  int grace_seconds = 25;
  std::string log_level = "info";
  bool log_json = false;
};

void AddFlags(CLI::App& app, SidecarFlags& flags);

// The addresses of --listen, the first choice first: "[::]:1,2" gives [::]:1 and [::]:2.
std::vector<std::string> ListenAddresses(const std::string& listen);

// InvalidArgument with one sentence about the first flag that is wrong, or about flags that do not
// go together. Durations parse and are in range if this returns OK.
absl::Status CheckFlags(const SidecarFlags& flags);

}  // namespace strobe
