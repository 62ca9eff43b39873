// `strobe capture`: one capture without Kubernetes.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace strobe {

struct CaptureFlags {
  std::string workers{}, logdir{}, run{}, worker_list{}, storage_config{};
  std::string duration = "1s", delay{}, ready_timeout = "0s", guard{}, max_skew{},
              collect_timeout{};
  std::string on_late_start = "Keep", min_workers = "100%", output = "table";
  int attempts = 3;
  unsigned host = 2, host_filter = 0, device = 1, python = 0;
  std::uint64_t max_bytes = 0;
  unsigned abort_memory = 95, abort_slowdown = 0;
  bool insecure_plaintext = false, server_saves = false, quiet = false;
  bool host_tracing_on_old_servers = false;
};

void AddCaptureFlags(CLI::App& command, CaptureFlags& flags);

// 0 = a trace of enough workers lies in the logdir; 1 = it does not; 2 = the flags are wrong.
int RunCapture(const CaptureFlags& flags);

}  // namespace strobe
