// The one lasting thread that the agent has, in programs that use CUDA. It waits for the sidecar's
// wishes on a futex, so that it costs nothing while it is idle, and arms and disarms the device
// tracer.
#pragma once
#include "agent/wire/ring_file.h"

namespace strobe::agent {

// Starts it unless it runs. The file must stay. Says in the file's header when there will be no
// thread: $STROBE_DEVICE is "off", or none could be started. `at_attendance` as in attend_thread.h.
void StartDeviceThread(wire::RingFile& file, void (*at_attendance)());
// At the program's end, before CUPTI's own destructors: hands over what CUPTI still holds, waits at
// most a second for the thread to let go of CUPTI, and lets nobody touch CUPTI afterwards.
void EndDeviceThread();
// In a forked child, where the thread is not: a later Start begins anew.
void ForgetDeviceThread();

}  // namespace strobe::agent
