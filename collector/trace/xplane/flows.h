// Reads the ids that connect an event with the events that it caused, or that caused it.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "collector/trace/xplane/space.h"

namespace strobe::xplane {

// Combines XLA's type and id of a producer or consumer to one id for both ends of an arrow.
inline std::uint64_t FlowId(std::int64_t type, std::int64_t id) {
  return static_cast<std::uint64_t>(type) << 58 ^ static_cast<std::uint64_t>(id);
}

// Each process of a worker counts its own ids; processes' planes are named "<plane> [<process>]".
// Returns a number for the process, with which its ids are XORed; 0 for a plane without one.
std::uint64_t ProcessOf(std::string_view plane);

// Reads ids from a plane's events, as ids that no other process uses. XLA has three conventions:
// `_pt`/`_p` and `_ct`/`_c` for a producer and a consumer; `flow`, which contains direction and id;
// and `correlation_id`, which connects a launch on the host with its work on a device.
class FlowReader {
 public:
  // `trace`: the number of the plane's trace among those that are shown together.
  explicit FlowReader(const Plane& plane, std::size_t trace = 0);

  // False if no event of the plane can have an id.
  bool any() const { return any_; }

  // Calls `visit(std::uint64_t id, bool incoming)` for each end of an arrow.
  template <typename Visit>
  absl::Status Read(const Event& event, const Visit& visit) const;

 private:
  enum Kind { kProducerType, kProducer, kConsumerType, kConsumer, kFlow, kCorrelation, kOther };
  static constexpr std::int64_t kGpuLaunch = 9;  // XLA's context type for GPU launches.
  // Profilers number the names of stats from 1 on; a plane seldom has so many.
  static constexpr std::size_t kFewNames = 256;

  Kind KindOf(std::int64_t name_id) const {
    if (static_cast<std::uint64_t>(name_id) < kFewNames)
      return kinds_[static_cast<std::size_t>(name_id)];
    const auto found = std::find(ids_.begin(), ids_.end(), name_id);
    return static_cast<Kind>(found - ids_.begin());
  }

  const std::uint64_t owner_;  // Differs between processes and between traces.
  // The ids of the stat names in the plane; 0 if it does not have the name.
  std::array<std::int64_t, kOther> ids_{};
  std::array<Kind, kFewNames> kinds_{};  // By id.
  bool device_ = false, any_ = false;
};

template <typename Visit>
absl::Status FlowReader::Read(const Event& event, const Visit& visit) const {
  // Values are not initialized, and valid only for the kinds in `found`.
  std::array<std::int64_t, kOther + 1> values;
  unsigned found = 0;
  const absl::Status status = ForEachInteger(event, [&](std::int64_t name_id, std::int64_t value) {
    const Kind kind = KindOf(name_id);
    values[kind] = value;
    found |= 1u << kind;
    // An event may have several of these. The low two bits are the direction: 1 in, 2 out, 3 both.
    // The top bit distinguishes these ids from those of the other conventions.
    if (kind != kFlow) return;
    const auto flow = static_cast<std::uint64_t>(value);
    const std::uint64_t id = owner_ ^ (flow >> 2 | std::uint64_t{1} << 63);
    if ((flow & 1) != 0) visit(id, /*incoming=*/true);
    if ((flow & 2) != 0) visit(id, /*incoming=*/false);
  });
  found &= ~(1u << kOther);
  if (!status.ok() || found == 0) return status;
  const auto has = [found](Kind kind) { return (found >> kind & 1) != 0; };
  const auto type = [&](Kind kind) { return has(kind) ? values[kind] : 0; };
  if (has(kProducer))
    visit(owner_ ^ FlowId(type(kProducerType), values[kProducer]), /*incoming=*/false);
  if (has(kConsumer))
    visit(owner_ ^ FlowId(type(kConsumerType), values[kConsumer]), /*incoming=*/true);
  if (has(kCorrelation) && values[kCorrelation] != 0)
    visit(owner_ ^ FlowId(kGpuLaunch, values[kCorrelation]), device_);
  return absl::OkStatus();
}

}  // namespace strobe::xplane
