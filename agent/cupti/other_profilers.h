// Detects other profilers in this process. CUPTI serves one subscriber, so the agent leaves the
// devices to them.
#pragma once
#include <cstdint>
#include <span>

namespace strobe::agent {

// True if PyTorch's profiler (Kineto) is loaded in this process. Kineto cannot share CUPTI. If
// another tool has subscribed first, Kineto disables its own GPU profiling until the process
// restarts. Once Kineto has subscribed, it never releases CUPTI (libkineto, CuptiCallbackApi).
bool KinetoIsLoaded();

// True if this process listens on one of these TCP ports, as a framework's profiler server does.
// False also if /proc cannot be read.
bool ListensOn(std::span<const std::uint16_t> ports);

}  // namespace strobe::agent
