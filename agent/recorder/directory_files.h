// The files of the agent directory that a program shares with the sidecar besides its ring file.
#pragma once
#include <string>

#include "agent/wire/layout.h"
#include "agent/wire/ring_file.h"

namespace strobe::agent {

// Adds a record to "<directory>/failures" and locks it for the life of the process. The sidecar has
// reserved space for the file, so this works on a full volume too. Does nothing after the first
// call, or if the file cannot be written.
void LogFailure(const std::string& directory, wire::FailureStep step, int error);
// A forked child calls it, because the record belongs to the parent.
void ForgetFailure();

// Reads the orders of the directory. Without a valid file, returns orders that request nothing.
wire::Orders ReadOrders(const std::string& directory);
// Writes the orders into the header of the program's own ring file.
void Obey(const wire::Orders& orders, const wire::RingFile& file);

}  // namespace strobe::agent
