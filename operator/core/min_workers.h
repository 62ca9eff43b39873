// "How many must end Ok" as people write it. Pure.
#pragma once
#include <string_view>

#include "absl/status/statusor.h"

namespace strobe {

// A number ("3") or a percentage ("50%", rounded up) of `matched`; at least 1, at most `matched`
// for percentages; a number larger than `matched` is kept, so that it can be reported as missed.
absl::StatusOr<std::size_t> ResolveMinWorkers(std::string_view text, std::size_t matched);

}  // namespace strobe
