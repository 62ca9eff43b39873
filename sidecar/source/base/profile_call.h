// Builds Profile requests to a framework's server and interprets their failures. Pure.
#pragma once
#include <string>
#include <string_view>

#include "common/protocol/outcome.h"
#include "strobe/v1/worker.pb.h"
#include "tensorflow/profiler_service.pb.h"

namespace strobe::source {

// `index` distinguishes the worker's processes. An id is never used twice, because a server
// remembers a Terminate for an id that it does not know yet.
std::string SessionId(const v1::CapturePlan& plan, std::size_t index);

// The repository root for servers that cannot return the trace in their answer (before 2025-09).
// They would take an empty root for the trainer's working directory. Nobody can write below this
// path, so they answer with an error that contains it. Newer servers ignore it.
inline constexpr std::string_view kNoRepository = "/proc/strobe";
inline constexpr std::string_view kCannotAnswerWithTrace =
    "cannot return its trace (servers since 2025-09 can); upgrade the framework, or mount a "
    "directory in both containers and pass --shared-dir";

// If `repository_root` is empty, the server must return the trace in its answer and must not write
// it.
tensorflow::ProfileRequest MakeProfileRequest(const v1::CapturePlan& plan, std::size_t index,
                                              std::string_view repository_root);

struct CallVerdict {
  Outcome outcome = Outcome::kUnknown;
  std::string message;
};

// Interprets a call that failed with gRPC status `code`.
CallVerdict JudgeCallFailure(int code, std::string_view text, std::string_view address);

}  // namespace strobe::source
