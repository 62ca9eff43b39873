// Edits an XSpace without changing the recorded bytes.
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

// Encodes a plane with stats and no lines as a field of an XSpace. Protobuf messages are merged by
// concatenation, so appending these bytes to a trace adds the plane.
std::string EncodeStatPlane(std::string_view name,
                            const std::vector<std::pair<std::string, StatValue>>& stats);

// Some profilers write Unix times into lines, others times since the profiler's start. A time stamp
// from three years on must be a Unix time, because no recording lasts that long.
constexpr bool IsUnixTime(std::int64_t timestamp_ns) {
  return timestamp_ns >= 100'000'000'000'000'000;
}

struct PlaneChange {
  // Appended to the plane's name: "<plane> [<tag>]".
  std::string_view tag{};
  std::int64_t shift_ns = 0;  // Added to every line's time stamp, in ns.
  std::optional<std::int64_t> id{};
  std::int64_t zero_ns = 0;  // Subtracted from time stamps that are Unix times.
};
// Applies the change to a plane and appends it as a field of an XSpace. DataLoss if the bytes are
// not a plane; a part of it may have been appended then.
absl::Status AppendPlane(std::string_view plane, const PlaneChange& change, std::string& to);

// Appends `part`, the XSpace of one process of a worker, to `whole`. Each profiler's times count
// from its own start; the lines are moved so that their absolute times stay the same. With a tag,
// every plane of the part is renamed "<plane> [<tag>]", as XLA names the planes of subprocesses.
// Only one hostname is kept, because XProf expects exactly one. DataLoss if the part is not an
// XSpace.
absl::Status AppendXSpace(std::string_view part, std::string_view tag, std::string& whole);

// Adds a text to the trace's errors or warnings; `field` is kErrorsField or kWarningsField. The
// text is made valid UTF-8 and cut to 1 KiB.
void AppendNote(std::uint32_t field, std::string_view note, std::string& whole);

}  // namespace strobe::xplane
