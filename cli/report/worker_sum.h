// Where the time of one worker went. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "collector/trace/digest/digest.h"

namespace strobe {

// What one worker did during the steps of the loop, or during the whole recording without steps.
struct WorkerSum {
  // The lengths of the steps that are followed by another one; if none is, of all steps.
  std::vector<std::int64_t> lengths_ns{};
  std::size_t steps = 0;
  std::int64_t first = 0, last = 0;  // The numbers of the first and the last step.
  std::int64_t span_ns = 0;
  Breakdown time{};
  HostTime host{};
};
WorkerSum SumOf(const Digest& digest, std::string_view loop);

}  // namespace strobe
