// The activity of one program's devices, as read from its device ring.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "agent/wire/device_records.h"
#include "agent/wire/layout.h"

namespace strobe::source {

// Records in the order of arrival, which is not the order of their times. A program chooses the
// numbers in them, also such that they collide in a std::unordered_map.
struct DeviceActivity {
  std::vector<wire::KernelRecord> kernels{};
  std::vector<wire::CopyRecord> copies{};
  std::vector<wire::SetRecord> sets{};
  std::vector<wire::MemoryRecord> memory{};
  std::vector<wire::CallRecord> calls{};
  std::vector<wire::OverheadRecord> overheads{};
  std::vector<wire::ExternalRecord> externals{};
  std::vector<wire::MarkerRecord> markers{};
  std::vector<wire::DeviceRecord> devices{};
  std::vector<wire::ClockRecord> clocks{};
  absl::flat_hash_map<std::uint32_t, std::string> texts{};

  // Adds one record of the ring. False if it does not fit into `budget`, which is in bytes. Ignores
  // records that are invalid.
  bool Add(wire::RecordType type, std::span<const std::uint64_t> payload, std::uint64_t& budget);
  // Forgets events that ended before this time of CUPTI's clock, and all moments of the clocks but
  // the last; what they took is added to `budget`. Returns how many events that were.
  std::uint64_t ForgetBefore(std::uint64_t device_ns, std::uint64_t& budget);

  // How many kernels have times that cannot be true: they begin before their launch did, or have
  // ended by what came after them on their stream and have no times. CUPTI tells such times where
  // it has lost the device's clock or its own memory on the device
  // (https://github.com/pytorch/pytorch/issues/192021).
  std::uint64_t MistimedKernels() const;

  // How many names were cut because they are too long; see wire::IsCut.
  std::uint64_t CutNames() const;

  // The text with this number; "?" if it was overwritten before it was read.
  std::string_view Text(std::uint32_t number) const;
};

// Converts CUPTI's clock to ticks by linear interpolation between the moments at which the program
// compared the two. A step of a clock therefore affects only the events around it.
class DeviceClock {
 public:
  explicit DeviceClock(std::vector<wire::ClockRecord> moments);

  bool is_known() const { return !moments_.empty(); }
  std::uint64_t Ticks(std::uint64_t device_ns) const;
  // The largest step, in ns, of CUPTI's clock against the interpolation; 0 if it is below a
  // millisecond.
  std::uint64_t jump_ns(double ns_per_tick) const;

 private:
  std::vector<wire::ClockRecord> moments_;  // Sorted by device time.
};

}  // namespace strobe::source
