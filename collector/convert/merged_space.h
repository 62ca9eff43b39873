// Many workers' traces as one XSpace.
#pragma once
#include <span>

#include "collector/convert/traces.h"

namespace strobe::convert {

// Every plane under "<plane> [<worker>]", all lines counting from one zero (`zero_ns`, Unix time),
// so that any reader of XPlanes shows the workers on one clock.
absl::Status WriteMergedSpace(std::span<const WorkerTrace> traces, std::int64_t zero_ns,
                              const Sink& sink);

}  // namespace strobe::convert
