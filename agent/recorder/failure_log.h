// Reports a process that cannot be recorded to the sidecar, which otherwise learns of processes
// only by their ring files.
#pragma once
#include <string>

#include "agent/wire/layout.h"

namespace strobe::agent {

// Adds a record to "<directory>/failures" and locks it for the life of the process. The sidecar has
// reserved space for the file, so this works on a full volume too. Does nothing after the first
// call, or if the file cannot be written.
void LogFailure(const std::string& directory, wire::FailureStep step, int error);
// A forked child calls it, because the record belongs to the parent.
void ForgetFailure();

}  // namespace strobe::agent
