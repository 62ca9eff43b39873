// What the workers of a capture that is under way do, for people who watch it. Pure.
#pragma once
#include <vector>

#include "capture/attempt_state.h"
#include "capture/workers_in_state.h"

namespace strobe {

// Failed workers come first, worst first, then the others from the first state to the last.
// About 64 names at most, whatever the number of workers.
std::vector<WorkersInState> StatesOf(const std::vector<Member>& members);

}  // namespace strobe
