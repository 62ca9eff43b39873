// What a process of an inference server tells of its engine at one moment.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"

namespace strobe::session {

// The loop whose steps are the iterations of an engine; LOOP in strobe/_inproc/serving.
inline constexpr std::string_view kEngineLoop = "engine";

struct EngineIteration {
  std::int64_t number = 0;
  MonoTime begin{};
  std::optional<MonoTime> end{};  // None while it runs.
  std::uint64_t requests = 0, tokens = 0;
};

struct EngineReading {
  std::string process{};                      // As in StepPace.
  std::vector<EngineIteration> iterations{};  // The last ones, the oldest first.
  std::uint64_t running = 0, waiting = 0;     // Requests of the scheduler, if it is in the process.
  // Since when the scheduler has had requests, and when it last planned an iteration with tokens.
  std::optional<MonoTime> busy_since{}, worked{};
};

}  // namespace strobe::session
