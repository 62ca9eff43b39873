// Takes traces that processes leave in a directory. The processes may be hostile: a trace may be no
// regular file, grow, or hold anything.
#pragma once
#include <cstdint>
#include <string>

#include "sidecar/source/base/framework_answers.h"

namespace strobe::source {

struct LeftTrace {
  std::string name{};    // Below the directory.
  std::string format{};  // "kineto" or "xspace".
  // When the process recorded, on the wall clock, if it says so; 0 = it does not.
  std::int64_t started_ns = 0, stopped_ns = 0;
  // See Original.
  std::string container{};
  std::uint32_t number = 0;
};

// Puts the trace into the answer as an XSpace, or the reason into its verdict: Truncated if the
// XSpace, or JSON for it, has more than `max_bytes`. Removes the file whatever happens; JSON is
// kept open in the answer if the tracers ask for originals.
void TakeLeftTrace(const std::string& directory, const LeftTrace& left, std::uint64_t max_bytes,
                   const v1::Tracers& tracers, FrameworkAnswer& answer);

// The XSpace of a trace is in memory several times while it is made and joined with others.
inline constexpr std::uint64_t kTraceCopies = 3;
// The largest XSpace that a plan allows, and the room in memory.
std::uint64_t MaxTrace(const v1::CapturePlan& plan, std::uint64_t room);
// The largest JSON for an XSpace of this size. JSON is read as a stream, so that its size only
// bounds the work.
std::uint64_t MaxJson(std::uint64_t xspace_bytes);

}  // namespace strobe::source
