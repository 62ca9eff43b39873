// The events of one thread's line: annotations, and the calls of CUDA between them. Pure.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "sidecar/source/device/device_planes.h"

namespace strobe::source {

// Events are sorted by begin; of events with the same begin, the outer one comes first.
struct LineEvent {
  std::int64_t begin_ps = 0, end_ps = 0;
  const HostCall* call = nullptr;  // Null for an annotation.
  std::string_view text{};
};

void SortEvents(std::vector<LineEvent>& events);

// Inserts calls into the sorted annotations `events`. Events of a line must nest, so small
// differences of the clocks are corrected.
void AddCalls(const std::vector<HostCall>& calls, std::vector<LineEvent>& events);

}  // namespace strobe::source
