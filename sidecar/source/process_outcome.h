// What the rows of a worker's processes make of the worker.
#pragma once
#include "sidecar/session/ports.h"

namespace strobe {

// The worker is as well as the worst of its processes. The message names that process, and how many
// of how many are not Ok where there are several.
void SetWorst(session::Recording& recording);

}  // namespace strobe
