// Reads the ids that connect an event with the events that it caused, or that caused it.
#pragma once
#include <array>
#include <cstdint>

#include "collector/xplane/space.h"

namespace strobe::xplane {

// Combines XLA's type and id of a producer or consumer to one id for both ends of an arrow.
inline std::uint64_t FlowId(std::int64_t type, std::int64_t id) {
  return static_cast<std::uint64_t>(type) << 58 ^ static_cast<std::uint64_t>(id);
}

// Reads ids from a plane's events. XLA has three conventions: `_pt`/`_p` and `_ct`/`_c` for a
// producer and a consumer; `flow`, which contains direction and id; and `correlation_id`, which
// connects a launch on the host with its work on a device.
class FlowReader {
 public:
  explicit FlowReader(const Plane& plane);

  // False if no event of the plane can have an id.
  bool any() const { return any_; }

  // Calls `visit(std::uint64_t id, bool incoming)` for each end of an arrow.
  template <typename Visit>
  absl::Status Read(const Event& event, const Visit& visit) const;

 private:
  enum { kProducerType, kProducer, kConsumerType, kConsumer, kFlow, kCorrelation, kStats };
  static constexpr std::int64_t kGpuLaunch = 9;  // XLA's context type for GPU launches.

  // The ids of the stat names in the plane; 0 if it does not have the name.
  std::array<std::int64_t, kStats> ids_{};
  bool device_ = false, any_ = false;
};

template <typename Visit>
absl::Status FlowReader::Read(const Event& event, const Visit& visit) const {
  std::array<std::optional<std::int64_t>, kStats> found;
  bool some = false;
  const absl::Status status = ForEachInteger(event, [&](std::int64_t name_id, std::int64_t value) {
    for (std::size_t i = 0; i < kStats; ++i) {
      if (ids_[i] != name_id || name_id == 0) continue;
      found[i] = value;
      some = true;
    }
  });
  if (!status.ok() || !some) return status;
  if (found[kProducer]) visit(FlowId(found[kProducerType].value_or(0), *found[kProducer]), false);
  if (found[kConsumer]) visit(FlowId(found[kConsumerType].value_or(0), *found[kConsumer]), true);
  if (found[kFlow]) {
    // The low two bits are the direction: 1 in, 2 out, 3 both. The top bit distinguishes these ids
    // from those of the other conventions.
    const auto flow = static_cast<std::uint64_t>(*found[kFlow]);
    const std::uint64_t id = flow >> 2 | std::uint64_t{1} << 63;
    if ((flow & 1) != 0) visit(id, true);
    if ((flow & 2) != 0) visit(id, false);
  }
  if (found[kCorrelation] && *found[kCorrelation] != 0)
    visit(FlowId(kGpuLaunch, *found[kCorrelation]), device_);
  return absl::OkStatus();
}

}  // namespace strobe::xplane
