// Shows the digests of a run's workers to people. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cli/report/report_document.h"
#include "collector/trace/digest/digest.h"

namespace strobe {

// The run's steps, a line for each worker that is `shown`, by its place in the digests, and the
// `top` operations that took most time on all devices together. Shares are of the steps of the main
// loop, which is the one that takes most of the time, or of the whole recording if there are no
// steps. "-" stands for what a trace does not tell.
std::vector<DocumentSection> DigestSections(std::span<const Digest> digests, std::size_t top,
                                            std::span<const std::uint32_t> shown);

}  // namespace strobe
