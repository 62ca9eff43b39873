// The attendance thread. During a capture it reports the container's memory use, looks for CUDA,
// and withdraws the requests of a sidecar that died. It ends when the time that the sidecar asked
// for is over, so that a program that forks between two captures has no thread of the agent.
#pragma once
#include "agent/wire/ring_file.h"

namespace strobe::agent {

// A function that the thread calls once at its start. It may block.
using AtBeginning = void (*)();

// True if the sidecar has made a new request. Cheap enough to call for every record.
bool AttendanceIsAsked(const wire::FileHeader& header);
// Starts the thread if the sidecar has asked for it. Safe to call from any thread. `file` must
// outlive the thread.
void Attend(wire::RingFile& file, AtBeginning at_beginning);
// A forked child calls it, because it does not have the thread.
void ForgetAttendance();

}  // namespace strobe::agent
