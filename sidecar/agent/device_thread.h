// The one thread that the agent has, in programs that use CUDA: it waits for the sidecar's wishes
// (a futex, so an idle one costs nothing) and arms and disarms the device tracer.
#pragma once
#include "sidecar/wire/ring_file.h"

namespace strobe::agent {

// Starts it unless it runs or $STROBE_DEVICE is "off". The file must stay.
void StartDeviceThread(wire::RingFile& file);

// In a forked child, where the thread is not: a later Start begins anew.
void ForgetDeviceThread();

}  // namespace strobe::agent
