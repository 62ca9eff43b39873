// What one program's devices did, as its device ring told it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/wire/device_records.h"
#include "agent/wire/layout.h"

namespace strobe {

// Records in the order in which they came, which is not that of their times.
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
  std::unordered_map<std::uint32_t, std::string> texts{};

  // Takes one record of the ring. False when `budget`, in bytes, does not hold it. What is no
  // record of ours is passed over.
  bool Add(wire::RecordType type, std::span<const std::uint64_t> payload, std::uint64_t& budget);

  // "?" for a text that was overwritten before it was read.
  std::string_view Text(std::uint32_t number) const;
};

// CUPTI's clock in terms of the ring's ticks: straight lines between the moments at which the
// program compared the two, so that a clock that is set costs only what lies around that.
class DeviceClock {
 public:
  explicit DeviceClock(std::vector<wire::ClockRecord> moments);

  bool known() const { return !moments_.empty(); }
  std::uint64_t Ticks(std::uint64_t device_ns) const;
  // The largest amount, in ns, by which the clock left its line between two moments; what is below
  // a millisecond is not counted.
  std::uint64_t jump_ns(double ns_per_tick) const;

 private:
  std::vector<wire::ClockRecord> moments_;  // By device time.
};

}  // namespace strobe
