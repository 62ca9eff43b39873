// Is this trace what was asked for, and if not, which one cause explains it best?
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "collector/xplane/summary.h"
#include "common/base/clock.h"
#include "common/base/outcome.h"

namespace strobe {

struct Window {  // On the worker's own clock.
  WallTime begin{};
  Nanos duration{};
  WallTime end() const { return begin + duration; }
};

struct Judgement {
  Outcome outcome = Outcome::kUnknown;
  std::string message;  // Empty when Ok.
  bool covers_window = false;
};

// What a capture was asked for, as far as it is known.
struct Asked {
  std::optional<Window> window{};  // None: any times will do.
  // The job is known to use an accelerator and device tracing was asked for.
  bool expects_device = false;
  std::optional<std::uint32_t> host_level{};  // tracers.host.
};

Judgement JudgeTrace(const xplane::TraceSummary& trace, const Asked& asked);

}  // namespace strobe
