// Determines, without harm, whether a profiler server's trainer survives a capture.
//
// jaxlib 0.5.0 to 0.8.3 crashes or hangs if a remote session records host annotations and
// TensorFlow cannot be imported (docs/how-to/trainers.md). The protocol has no request for a
// version, but servers since 2026-01 have an additional method, GetSnapshot. A request whose bytes
// are not a valid message shows whether the method exists: gRPC either refuses the bytes (INTERNAL)
// before anything runs, or does not know the method (UNIMPLEMENTED). jaxlib 0.9.0 is the first
// release with the method and the first that is safe.
#pragma once
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace strobe::source {

enum class ServerAge {
  kUnknown,     // No answer, or an unexpected one.
  kBefore2026,  // May crash when host annotations are recorded.
  kSince2026,
};

// Returns one age per channel; kUnknown for a null channel. Returns when all servers have answered,
// or at the deadline.
std::vector<ServerAge> AskAges(std::span<const std::shared_ptr<grpc::Channel>> channels,
                               std::chrono::system_clock::time_point deadline);

// Interprets the status of an answer.
ServerAge AgeOf(grpc::StatusCode code);

// The reason why host annotations were left out, human-readable. Empty for kSince2026.
std::string_view WhyNoHostTracing(ServerAge age);

}  // namespace strobe::source
