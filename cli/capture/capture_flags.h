// The flags of `strobe capture` and the capture that they describe.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/spec.h"
#include "common/protocol/capture_defaults.h"
#include "sidecar/source/base/server_risks.h"

namespace strobe::cli {

// What is recorded; see v1::Tracers.
struct TracerFlags {
  unsigned host = capture::kDefaultHostLevel, device = capture::kDefaultDeviceLevel, python = 0;
  unsigned host_filter = 0;  // 0 = all annotations.
  bool shapes = false, stacks = false, memory = false, flops = false, modules = false,
       keep_original = false, detach = false;
};

// Durations are texts such as "2s"; empty = the default that the help text names.
struct CaptureFlags {
  std::string workers{}, logdir{}, run{}, worker_list{}, storage_config{};
  std::string duration = "1s", delay{}, ready_timeout = "0s", guard{}, max_skew{}, max_pause{},
              collect_timeout{};
  std::string on_late_start = "Keep", min_workers = "100%", output = "table", progress = "text";
  std::string at_step{}, look_back{};
  unsigned steps = 0;                 // 0 = a window of time.
  unsigned min_running_requests = 0;  // 0 = begin without any.
  int attempts = 3;
  TracerFlags tracers{};
  std::uint64_t max_bytes = 0;  // 0 = no limit.
  std::vector<std::uint32_t> ranks{}, local_ranks{};
  unsigned abort_memory = kDefaultAbortMemoryPercent, abort_slowdown = 0;  // 0 = no limit.
  bool insecure_plaintext = false, server_saves = false, quiet = false;
  source::ServerRisks risks;
};

// Whether the traces do not pass through this process.
inline bool SavedByServers(const CaptureFlags& flags) {
  return flags.server_saves || !flags.worker_list.empty();
}

void AddCaptureFlags(CLI::App& command, CaptureFlags& flags);

// The capture of `workers` workers that the flags ask for. `now` and this process's id make the
// names of the capture and of its run unique. InvalidArgument names the flag that is wrong.
absl::StatusOr<capture::Spec> ParseCaptureFlags(const CaptureFlags& flags, std::size_t workers,
                                                WallTime now);

// Sets how many workers of each role must end well, if the workers have roles.
absl::Status SetRoles(const CaptureFlags& flags, const std::vector<capture::Target>& targets,
                      capture::Spec& spec);

}  // namespace strobe::cli
