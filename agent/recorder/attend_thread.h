// The thread by which a program attends a capture: it tells how near the container is to its memory
// limit, looks for CUDA, and switches recording off when the sidecar died. It lives as long as the
// sidecar asked for and no longer, so that a program that forks between two captures finds no
// thread of ours.
#pragma once
#include "agent/wire/ring_file.h"

namespace strobe::agent {

// What the thread does once at its beginning, where blocking does not hurt anybody.
using AtBeginning = void (*)();

// Whether the sidecar has asked anew: cheap enough for every record.
bool AttendanceIsAsked(const wire::FileHeader& header);
// Starts the thread. Safe at any time, from any thread. The file must stay.
void Attend(wire::RingFile& file, AtBeginning at_beginning);
// In the child of a fork, which has no thread.
void ForgetAttendance();

}  // namespace strobe::agent
