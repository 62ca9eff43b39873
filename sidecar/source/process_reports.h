// What became of a worker's processes, and what that makes of the worker. Pure.
#pragma once
#include <string>

#include "sidecar/session/ports.h"

namespace strobe {

// Gives the recording the outcome of its worst process, with a message that says how many of how
// many are as asked and names the worst one. Leaves an outcome that is worse than all of theirs.
void ConcludeProcesses(session::Recording& recording);

// Makes one recording of those of the framework's servers and of the agent, each concluded. What
// the agent recorded is kept whatever happened to the servers, and the other way round.
session::Recording JoinRecordings(session::Recording framework, session::Recording agent);

}  // namespace strobe
