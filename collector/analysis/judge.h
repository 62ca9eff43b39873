// Is this trace what was asked for, and if not, which one cause explains it best?
#pragma once
#include <optional>
#include <string>

#include "collector/base/clock.h"
#include "collector/base/outcome.h"
#include "collector/xplane/summary.h"

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

// `window`: none for a trace of which nobody knows what was asked; then any times will do.
// `expects_device`: the job is known to use an accelerator and device tracing was asked for.
Judgement JudgeTrace(const xplane::TraceSummary& trace, const std::optional<Window>& window,
                     bool expects_device);

}  // namespace strobe
