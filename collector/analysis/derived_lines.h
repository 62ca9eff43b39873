// Lines that nobody recorded and everybody reads: what XLA's own tools make of a GPU's streams when
// they open a trace (XLA, derived_timeline.cc). TPU planes come with theirs.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "collector/xplane/space.h"

namespace strobe {

// An encoded XSpace with a plane for each GPU of `space` that has no such lines yet, under the same
// name:
//   Steps                 from the first to the last work of a training step; a device's work
//   belongs
//                         to the step around its launch
//   XLA Modules, XLA Ops, Framework Ops, Source code
//                         what streams' events tell of themselves (hlo_module, hlo_op, tf_op,
//                         source), neighbours of one name as one event
//   Framework Name Scope  the parts of tf_op, one inside of the other
//   Launch Stats          per step, how long the host took for launches: the longest, on average
// Empty when there is nothing to tell. DataLoss when the trace is damaged.
absl::StatusOr<std::string> DeriveLines(const xplane::Space& space);

}  // namespace strobe
