// Is a profiler server one whose trainer survives a capture? Found out without harm.
//
// jaxlib 0.5.0 to 0.8.3 crashes or hangs when a session that was asked for from outside records
// host annotations and TensorFlow cannot be imported (docs/explanation/harm.md). The protocol has
// no question for a version, but servers since 2026-01 know a method more, GetSnapshot. A request
// whose bytes are no message tells whether it is there: gRPC refuses the bytes (INTERNAL) before
// anything runs, or does not know the method (UNIMPLEMENTED). jaxlib 0.9.0 is the first release
// that has the method and the first that is safe.
#pragma once
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace strobe {

enum class ServerAge {
  kUnknown,     // Did not answer, or in no way that servers in the field do.
  kBefore2026,  // May crash when host annotations are recorded.
  kSince2026,
};

// One per channel; kUnknown for null. Returns when all have answered, or at the deadline.
std::vector<ServerAge> AskAges(std::span<const std::shared_ptr<grpc::Channel>> channels,
                               std::chrono::system_clock::time_point deadline);

// What an answer of this status says.
ServerAge AgeOf(grpc::StatusCode code);

// For people: why host annotations were left out; empty for kSince2026.
std::string_view WhyNoHostTracing(ServerAge age);

}  // namespace strobe
