// What a Profile request to a framework's server says and what its answer means. Pure.
#pragma once
#include <string>
#include <string_view>

#include "common/base/outcome.h"
#include "strobe/v1/worker.pb.h"
#include "tensorflow/profiler_service.pb.h"

namespace strobe {

// `index` tells the worker's processes apart; ids are never used twice, because a server remembers
// a Terminate for an id that has not come yet.
std::string SessionId(const v1::CapturePlan& plan, std::size_t index);

// Where servers that cannot answer with the trace (from before 2025-09) would write it. They take
// an empty root for the trainer's working directory; below this one nobody can write, and they
// answer with an error that names it. Newer servers do not look at it.
inline constexpr std::string_view kNoRepository = "/proc/strobe";
inline constexpr std::string_view kCannotAnswerWithTrace =
    "cannot answer with its trace (servers since 2025-09 can); upgrade the framework, or mount a "
    "directory in both containers and pass --shared-dir";

// Without a `repository_root` the server is to answer with the trace or not to write it at all.
tensorflow::ProfileRequest MakeProfileRequest(const v1::CapturePlan& plan, std::size_t index,
                                              std::string_view repository_root);

struct CallVerdict {
  Outcome outcome = Outcome::kUnknown;
  std::string message;
};

// Of a call that failed with gRPC status `code`.
CallVerdict JudgeCallFailure(int code, std::string_view text, std::string_view address);

}  // namespace strobe
