// Finds the HLO instruction that an event has executed.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

struct HloOp {
  std::string instruction{}, module{};
  std::optional<std::int64_t> program{};  // The id of the compiled program.
};

// Returns the HLO op that an event stands for, by its arguments (`hlo_op`, `hlo_module`,
// `program_id`) or, on lines of XLA ops, by its name and the module that ran on the same device at
// `middle_ps`, the middle of the event on the run's clock. None if it is no XLA op. `row` is an
// index into LoadedRun::rows, and `event` one of that row's events.
absl::StatusOr<std::optional<HloOp>> HloOpOf(const LoadedRun& run, std::uint32_t row,
                                             const xplane::Plane& plane, const xplane::Event& event,
                                             std::int64_t middle_ps);

}  // namespace strobe::viewer
