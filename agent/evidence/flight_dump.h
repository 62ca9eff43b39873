// Dumps PyTorch's Flight Recorder by its C++ functions, without the interpreter's lock.
//
// A dump asks CUDA for each collective whether it has finished, with the recorder's lock held. If
// the driver blocks, the dump does, and so would the trainer's next collective. It is therefore
// taken only on an order, one at a time, and in a thread of its own that nobody has to wait for.
#pragma once
#include <string>

#include "agent/wire/evidence_file.h"

namespace strobe::agent {

// Begins a dump into "<directory>/<name>", unless an earlier one has not come back. The state is
// kRunning until it has ended. Never asks for frames, for which PyTorch would take the
// interpreter's lock.
void BeginFlightDump(const std::string& directory, const std::string& name);
// The state of the dump that was begun last.
wire::FlightState FlightDumpState();
// For a forked child, which does not have the thread.
void ForgetFlightDump();

}  // namespace strobe::agent
