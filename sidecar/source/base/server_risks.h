// What a profiler server's trainer may not survive, if it did not announce itself. What a recording
// through a server can do to it, and what was measured, is in docs/how-to/trainers.md.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// Whether a server's trainer survives host annotations, which is found out without harm.
//
// jaxlib 0.5.0 to 0.8.3 crashes or hangs if a remote session records host annotations and
// TensorFlow cannot be imported (docs/how-to/trainers.md). The protocol has no request for a
// version, but servers since 2026-01 have an additional method, GetSnapshot. A request whose bytes
// are not a valid message shows whether the method exists: gRPC either refuses the bytes (INTERNAL)
// before anything runs, or does not know the method (UNIMPLEMENTED). jaxlib 0.9.0 is the first
// release with the method and the first that is safe.
enum class ServerAge {
  kUnknown,     // No answer, or an unexpected one.
  kBefore2026,  // May crash when host annotations are recorded.
  kSince2026,
};

// Calls the method with bytes that are no message: INTERNAL tells that the server has the method,
// and UNIMPLEMENTED that it does not. Nothing runs in the server. Returns one answer per channel,
// UNKNOWN for a null channel, when all servers have answered, or at the deadline.
std::vector<grpc::StatusCode> AskForMethod(std::span<const std::shared_ptr<grpc::Channel>> channels,
                                           const char* method,
                                           std::chrono::system_clock::time_point deadline);

// Returns one age per channel; kUnknown for a null channel.
std::vector<ServerAge> AskAges(std::span<const std::shared_ptr<grpc::Channel>> channels,
                               std::chrono::system_clock::time_point deadline);

// Interprets the status of an answer.
ServerAge AgeOf(grpc::StatusCode code);

// The reason why host annotations were left out, human-readable. Empty for kSince2026.
std::string_view WhyNoHostTracing(ServerAge age);

}  // namespace strobe::source
