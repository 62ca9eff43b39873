// Finds the HLO instruction that an event has executed.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "viewer/loaded_run.h"

namespace strobe::viewer {

struct HloOp {
  std::string instruction{}, module{};
  std::optional<std::int64_t> program{};  // The id of the compiled program.
};

// From the event's arguments (`hlo_op`, `hlo_module`, `program_id`) or, for lines of XLA ops, from
// its name and the module that ran at the time on the same device. None when the event is no XLA
// op. `row` is a place in LoadedRun::rows, and `event` one of its events.
absl::StatusOr<std::optional<HloOp>> HloOpOf(const LoadedRun& run, std::uint32_t row,
                                             const xplane::Plane& plane, const xplane::Event& event,
                                             std::int64_t middle_ps);

}  // namespace strobe::viewer
