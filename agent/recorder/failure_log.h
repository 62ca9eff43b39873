// Tells the sidecar about a process that cannot be recorded, because it has no ring file by which
// the sidecar would know of it.
#pragma once
#include <string>

#include "agent/wire/layout.h"

namespace strobe::agent {

// Appends a record to "<directory>/failures" and holds a lock on it while the process lives. The
// sidecar has reserved space for the file, so that this works on a full volume too. Once per
// process; does nothing when even that fails.
void LogFailure(const std::string& directory, wire::FailureStep step, int error);
// In a forked child: the record is the parent's.
void ForgetFailure();

}  // namespace strobe::agent
