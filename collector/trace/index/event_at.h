// Finds the bytes of an event by its place, which is all that an index keeps of it.
#pragma once
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace strobe::index {

// The bytes of the event that begins at `place`. `bytes` are those of the trace or of the derived
// lines, of which the first one has the place `first_place`. DataLoss when there cannot be any.
absl::StatusOr<std::string_view> EventAt(std::string_view bytes, std::uint64_t first_place,
                                         std::uint64_t place);

}  // namespace strobe::index
