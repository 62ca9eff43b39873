// Shows the digests of a run's workers to people. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cli/report/report_document.h"
#include "collector/trace/digest/digest.h"

namespace strobe::cli {

// What one worker did during the steps of the loop, or during the whole recording without steps.
struct WorkerSum {
  // The lengths of the steps that are followed by another one; if none is, of all steps.
  std::vector<std::int64_t> lengths_ns{};
  std::size_t steps = 0;
  std::int64_t first = 0, last = 0;  // The numbers of the first and the last step.
  std::int64_t span_ns = 0;
  digest::Breakdown time{};
  digest::HostTime host{};
};
WorkerSum SumOf(const digest::Digest& digest, std::string_view loop);

// The run's steps, a line for each worker that is `shown`, by its place in the digests, and the
// `top` operations that took most time on all devices together. Shares are of the steps of the main
// loop, which is the one that takes most of the time, or of the whole recording if there are no
// steps. "-" stands for what a trace does not tell.
std::vector<DocumentSection> DigestSections(std::span<const digest::Digest> digests,
                                            std::size_t top, std::span<const std::uint32_t> shown);

}  // namespace strobe::cli
