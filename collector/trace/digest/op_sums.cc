#include "collector/trace/digest/op_sums.h"

#include <algorithm>
#include <numeric>

namespace strobe::digest {

std::uint32_t OpSums::Find(std::string_view name, WorkKind kind) {
  const auto found = numbers_.find({name, kind});
  if (found != numbers_.end()) return found->second;
  if (sums_.size() >= kMaxOps) {
    ++uncounted_;
    name = "(others)";
    const auto others = numbers_.find({name, kind});
    if (others != numbers_.end()) return others->second;
  }
  const auto op = static_cast<std::uint32_t>(sums_.size());
  const bool on_device =
      kind == WorkKind::kCompute || kind == WorkKind::kCommunication || kind == WorkKind::kCopy;
  sums_.push_back({.name = name, .kind = kind, .on_device = on_device});
  numbers_.emplace(Key{name, kind}, op);
  return op;
}

std::vector<std::uint32_t> OpSums::BySelfTime() const {
  std::vector<std::uint32_t> order(sums_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::erase_if(order, [&](std::uint32_t op) { return sums_[op].count == 0; });
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const OpSum &x = sums_[a], &y = sums_[b];
    return x.self_ps != y.self_ps ? x.self_ps > y.self_ps : x.name < y.name;
  });
  return order;
}

Op OpSums::Summary(std::uint32_t op, const Durations::Quantiles& quantiles) const {
  const OpSum& sum = sums_[op];
  return {.kind = sum.kind,
          .count = sum.count,
          .total_ns = sum.total_ps / 1000,
          .self_ns = std::max<std::int64_t>(sum.self_ps, 0) / 1000,
          .p50_ns = quantiles.p50 / 1000,
          .p99_ns = quantiles.p99 / 1000,
          .flops = sum.flops,
          .bytes_accessed = sum.bytes_accessed};
}

EventKinds::EventKinds(const xplane::Plane& plane) : plane_(plane) {
  std::int64_t largest = 0;
  for (const auto& [id, name] : plane.event_names) largest = std::max(largest, id);
  const auto names = static_cast<std::int64_t>(plane.event_names.size());
  if (largest <= 4 * names + 1024) dense_.resize(static_cast<std::size_t>(largest) + 1);
}

}  // namespace strobe::digest
