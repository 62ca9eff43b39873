// Changes to an XSpace that leave the recorded bytes as they are.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace strobe::xplane {

using StatValue = std::variant<std::int64_t, std::string>;

// A plane with stats and no lines, as one more field of an XSpace: protobuf messages are joined by
// concatenation, so appending these bytes to a trace adds the plane.
std::string EncodeStatPlane(std::string_view name,
                            const std::vector<std::pair<std::string, StatValue>>& stats);

struct PlaneChange {
  std::string_view tag{};     // Behind the name: "<plane> [<tag>]".
  std::int64_t shift_ns = 0;  // Added to every line's time stamp.
  std::optional<std::int64_t> id{};
};
// Appends a plane's bytes, changed, as one more field of an XSpace. DataLoss when they are none;
// some of it may have been appended then.
absl::Status AppendPlane(std::string_view plane, const PlaneChange& change, std::string& to);

// Appends `part`, the XSpace of one process of a worker, to `whole`; lines keep their absolute
// times, although each profiler counts from its own start. With a tag every plane of the part is
// renamed "<plane> [<tag>]", as XLA names the planes of subprocesses; the hostname is kept once,
// because XProf expects exactly one. DataLoss when the part is no XSpace.
absl::Status AppendXSpace(std::string_view part, std::string_view tag, std::string& whole);

}  // namespace strobe::xplane
