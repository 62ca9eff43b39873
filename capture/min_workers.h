// The text of minWorkers, as a number. Pure.
#pragma once
#include <string_view>

#include "absl/status/statusor.h"

namespace strobe {

// `text` is a number of at least 1 ("3"), or a percentage of `matched` from 1% to 100%, rounded up.
// A number larger than `matched` is returned as it is, and the capture fails for too few workers.
// InvalidArgument for any other text.
absl::StatusOr<std::size_t> ResolveMinWorkers(std::string_view text, std::size_t matched);

}  // namespace strobe
