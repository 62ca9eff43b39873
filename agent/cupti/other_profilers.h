// Other profilers in this process whose devices we must leave to them: CUPTI serves one subscriber.
#pragma once
#include <cstdint>
#include <span>

namespace strobe::agent {

// PyTorch's profiler (Kineto) is part of this process. It cannot share CUPTI: while somebody else
// is subscribed, its first use switches its own GPU profiling off until the process restarts, and
// once it has subscribed it never gives CUPTI back (libkineto, CuptiCallbackApi).
bool KinetoIsLoaded();

// Whether this process listens on one of these TCP ports, as a framework's profiler server does.
// False also when the kernel does not tell.
bool ListensOn(std::span<const std::uint16_t> ports);

}  // namespace strobe::agent
