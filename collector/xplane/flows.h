// The numbers by which an event says what it started, or what started it.
#pragma once
#include <array>
#include <cstdint>

#include "collector/xplane/space.h"

namespace strobe::xplane {

// One number for both ends of an arrow, from XLA's type and id of a producer or consumer.
inline std::uint64_t FlowId(std::int64_t type, std::int64_t id) {
  return static_cast<std::uint64_t>(type) << 58 ^ static_cast<std::uint64_t>(id);
}

// Reads them from a plane's events. Three conventions of XLA: `_pt`/`_p` and `_ct`/`_c`, a producer
// and a consumer; `flow`, direction and number in one; and `correlation_id`, which leads from a
// launch on the host to its work on a device.
class FlowReader {
 public:
  explicit FlowReader(const Plane& plane);

  // False: no event of the plane can have one.
  bool any() const { return any_; }

  // `visit(std::uint64_t id, bool incoming)` for each end of an arrow.
  template <typename Visit>
  absl::Status Read(const Event& event, const Visit& visit) const;

 private:
  enum { kProducerType, kProducer, kConsumerType, kConsumer, kFlow, kCorrelation, kStats };
  static constexpr std::int64_t kGpuLaunch = 9;  // XLA's context type.

  std::array<std::int64_t, kStats> ids_{};  // Of the plane's stat names; 0 = not there.
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
    // Direction in the low two bits: 1 in, 2 out, 3 both. Kept apart from the other conventions.
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
