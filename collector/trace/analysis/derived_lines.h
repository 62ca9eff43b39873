// Derives summary lines, such as "Steps" and "XLA Ops", from the streams of GPU planes. XLA's own
// tools add the same lines when they open a trace (derived_timeline.cc), so that users expect to
// see them. TPU planes already contain theirs.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/xplane/space.h"

namespace strobe::analysis {

// Returns an encoded XSpace with one plane, of the same name, for each GPU plane of `space` that
// has no such lines yet. Its lines are:
//   Steps                 one event per training step, from the first to the last work on the
//                         device that was launched during the step
//   XLA Modules, XLA Ops, Framework Ops, Source code
//                         the stats hlo_module, hlo_op, tf_op and source of the streams' events;
//                         neighbours with the same value become one event
//   Framework Name Scope  the scopes in tf_op, nested
//   Launch Stats          per step, how long the host's launches took: the longest and the average
// Empty when no plane needs any. DataLoss when the trace is damaged. For each plane of the result,
// the number in `space` of the plane that it is derived from is appended to `sources`, which may be
// null: several planes may have the same name and id.
absl::StatusOr<std::string> DeriveLines(const xplane::Space& space,
                                        std::vector<std::size_t>* sources = nullptr);

}  // namespace strobe::analysis
