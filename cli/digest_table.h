// Shows the digests of a run's workers to people. Pure.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "collector/digest/digest.h"

namespace strobe {

// A heading with the run's steps, a line for each worker, and the `top` operations that took most
// time on all devices together. Shares are of the steps of the main loop, which is the one that
// takes most of the time, or of the whole recording if there are no steps. "-" stands for what a
// trace does not tell.
std::string RenderDigests(std::span<const Digest> digests, std::size_t top);

}  // namespace strobe
