// The memory that a device or a process had allocated over time, as its counters or its allocators
// tell it, and what was allocated when it was most.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/tally/tally.h"

namespace strobe::tally {

// An allocation that was not given back before the peak.
struct Allocation {
  std::int64_t begin_ps = 0;
  std::int64_t bytes = 0;
  // The operator that asked for it, of PyTorch's the innermost on its thread; empty if not known.
  std::string_view by{};
};

struct MemoryCurve {
  static constexpr std::size_t kMaxPoints = 1000, kMaxAllocations = 200;

  // "/device:GPU:0" and "Total Allocated", or an allocator such as "GPU_0_bfc" and
  // "Allocated memory".
  std::string_view plane{}, counter{};
  std::uint64_t values = 0;  // How many the counter has; `points` are some of them.
  // Times and values, in the order of time. Of each stretch of time the largest one is kept.
  std::vector<std::pair<std::int64_t, double>> points{};
  std::int64_t peak_at_ps = 0;
  double peak = 0, first = 0, last = 0;

  // What was alive at the peak, the largest first: only if the trace tells of single allocations.
  bool tells_allocations = false;
  std::vector<Allocation> alive{};
  std::uint64_t alive_left_out = 0;
  std::int64_t alive_bytes = 0;  // All of them, also those that are left out.
};

enum class Allocations : std::uint8_t { kLeftOut, kRead };

// The curves of all counters of memory and of all allocators; what was alive at their peaks is not
// known if allocations are left out. DataLoss when the trace does not fit the index, Cancelled when
// the source is gone.
absl::StatusOr<std::vector<MemoryCurve>> ReadMemory(const Source& source,
                                                    Allocations allocations = Allocations::kRead);

}  // namespace strobe::tally
