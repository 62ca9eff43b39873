// What a Profile request to a framework's server says and what its answer means. Pure.
#pragma once
#include <string>
#include <string_view>

#include "collector/base/outcome.h"
#include "strobe/v1/worker.pb.h"
#include "tensorflow/profiler_service.pb.h"

namespace strobe {

// `index` tells the worker's processes apart; ids are never used twice, because a server remembers
// a Terminate for an id that has not come yet.
std::string SessionId(const v1::CapturePlan& plan, std::size_t index);

tensorflow::ProfileRequest MakeProfileRequest(const v1::CapturePlan& plan, std::size_t index,
                                              std::string_view shared_dir);

struct CallVerdict {
  Outcome outcome = Outcome::kUnknown;
  std::string message;
};

// Of a call that failed with gRPC status `code`.
CallVerdict JudgeCallFailure(int code, std::string_view text, std::string_view address);

}  // namespace strobe
