// The graph of a module's instructions around one of them.
#pragma once
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "viewer/answers/hlo_op.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

struct GraphRequest {
  std::uint32_t worker = 0;
  HloOp op{};  // Without an instruction: the root of the module's entry computation.
  // Instructions up to `levels` steps away are shown, with at most `fan` operands and users of
  // each.
  std::uint32_t levels = 2, fan = 8;
  std::uint32_t limit = 80;  // The most instructions; at least 1.
};

// JSON: the module, the computation, the instruction in the centre, and `nodes` and `edges` around
// it; for each node its text and how many operands and users it has in all. NotFound when the trace
// does not hold the module or the module not the instruction, DataLoss when its HLO is malformed.
absl::StatusOr<std::string> DrawGraph(const LoadedRun& run, const GraphRequest& request);

}  // namespace strobe::viewer
