// Decides whether a trace is what the capture asked for and, if not, which cause explains it best.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "collector/trace/xplane/summary.h"
#include "common/base/clock.h"
#include "common/protocol/outcome.h"

namespace strobe::analysis {

// The time that must be recorded, on the worker's own clock.
struct Window {
  WallTime begin{};
  Nanos duration{};
  WallTime end() const { return begin + duration; }
};

struct Judgement {
  Outcome outcome = Outcome::kUnknown;
  std::string message;  // Human-readable details; empty when the outcome is Ok.
  bool covers_window =
      false;  // Recording lasted for the whole window; true when no window is known.
};

// What the capture asked for, as far as it is known.
struct Requested {
  std::optional<Window> window{};  // nullopt: not known, so that any times are accepted.
  // The job is known to use an accelerator, and the capture asked for device tracing.
  bool expects_device = false;
  std::optional<std::uint32_t>
      host_level{};  // The number of the request's tracers.host; nullopt: not known.
};

// Several causes may apply. The one that explains most is returned: missing permission, then
// missing events, then a late or short recording, then dropped events.
Judgement JudgeTrace(const xplane::TraceSummary& trace, const Requested& asked);

}  // namespace strobe::analysis
