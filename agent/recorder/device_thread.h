// The device thread, which stays as long as the program. It exists only in programs that use CUDA.
// It waits on a futex for the sidecar's requests, so it costs nothing while idle, and it controls
// the device tracer.
#pragma once
#include "agent/wire/ring_file.h"

namespace strobe::agent {

// Starts the thread unless it runs. If there can be no thread, because $STROBE_DEVICE is "off" or
// creation failed, reports this in the file's header. `file` must outlive the thread.
// `at_attendance` is passed to Attend.
void StartDeviceThread(wire::RingFile& file, void (*at_attendance)());
// For the program's exit, before CUPTI's own destructors run. Lets the thread fetch CUPTI's
// remaining records, waits for it at most one second, and prevents all later calls to CUPTI.
void EndDeviceThread();
// For PyTorch's profiler, which is about to record and needs CUPTI for itself: stops recording and
// leaves the devices to it for good. Waits for that a second at most. Safe to call from any thread.
void LeaveDevicesToKineto();
// For a forked child, which does not have the thread. It may be started again.
void ForgetDeviceThread();

}  // namespace strobe::agent
