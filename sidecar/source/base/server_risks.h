// What a profiler server's trainer may not survive, if it did not announce itself. What a recording
// through a server can do to it, and what was measured, is in docs/how-to/trainers.md.
#pragma once
#include <string>
#include <string_view>

namespace strobe::source {

// What users allow although it can harm a trainer.
struct ServerRisks {
  // Request host annotations also from servers from before 2026, which can crash their process.
  bool host_tracing_on_old_servers = false;
  // Request NVIDIA GPUs. XLA's profiler detaches CUPTI when it stops, which can take the GPU from a
  // program that trains meanwhile.
  bool gpu_tracing_by_servers = false;
  // NVIDIA's driver has made this file on machines with its GPUs, in all containers.
  std::string nvidia_driver = "/proc/driver/nvidia/version";
};

// True if a recording through the server at this address must leave out devices, because it runs on
// this machine, which has NVIDIA's driver. TPUs are on machines without one.
bool SparesGpus(const ServerRisks& risks, std::string_view address);

// Why a program that did not announce itself is spared.
inline constexpr std::string_view kMayLoseGpus =
    "the end of such a recording can take an NVIDIA GPU from the program. Let the program announce "
    "itself (strobe.dev/python, or the agent), or allow it with --gpu-tracing-by-servers";
// Human-readable: that `who` was spared.
std::string SparedNote(std::string_view who, std::string_view why = kMayLoseGpus);

}  // namespace strobe::source
