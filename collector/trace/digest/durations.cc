#include "collector/trace/digest/durations.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace strobe::digest {
namespace {

// A bucket is 1/32 of a power of two wide.
constexpr unsigned kFraction = 5;

}  // namespace

std::uint32_t Durations::BucketOf(std::int64_t duration) {
  const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(duration, 0));
  if (value < std::uint64_t{1} << kFraction) return static_cast<std::uint32_t>(value);
  const auto shift = static_cast<unsigned>(std::bit_width(value)) - kFraction - 1;
  return ((shift + 1) << kFraction) +
         static_cast<std::uint32_t>((value >> shift) - (std::uint64_t{1} << kFraction));
}

std::int64_t Durations::MiddleOf(std::uint32_t bucket) {
  if (bucket < 1u << kFraction) return bucket;
  const unsigned shift = (bucket >> kFraction) - 1;
  const std::uint64_t low = (bucket & ((1u << kFraction) - 1)) + (std::uint64_t{1} << kFraction);
  return static_cast<std::int64_t>((low << shift) + ((std::uint64_t{1} << shift) >> 1));
}

Durations::Slot& Durations::Find(std::uint32_t key) {
  std::size_t at = static_cast<std::size_t>(key * 0x9e3779b97f4a7c15u >> shift_);
  while (slots_[at].key != 0 && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  return slots_[at];
}

void Durations::Grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  --shift_;
  for (const Slot& slot : old) {
    if (slot.key != 0) Find(slot.key) = slot;
  }
}

void Durations::Add(std::uint32_t op, std::int64_t duration) {
  const std::uint32_t key = (op << kBucketBits | BucketOf(duration)) + 1;
  Slot& slot = Find(key);
  if (slot.key != 0) {
    if (slot.count != std::numeric_limits<std::uint32_t>::max()) ++slot.count;
    return;
  }
  if (used_ == kMaxPairs) {
    if (incomplete_.size() <= op) incomplete_.resize(std::size_t{op} + 1);
    incomplete_[op] = true;
    return;
  }
  slot = {key, 1};
  if (++used_ * 4 > slots_.size() * 3) Grow();
}

std::vector<Durations::Quantiles> Durations::Compute(std::size_t ops) const {
  std::vector<Slot> sorted;
  sorted.reserve(used_);
  for (const Slot& slot : slots_) {
    if (slot.key != 0) sorted.push_back({slot.key - 1, slot.count});
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Slot& a, const Slot& b) { return a.key < b.key; });
  std::vector<Quantiles> quantiles(ops);
  for (std::size_t begin = 0; begin < sorted.size();) {
    const std::uint32_t op = sorted[begin].key >> kBucketBits;
    std::size_t end = begin;
    std::uint64_t total = 0;
    while (end < sorted.size() && sorted[end].key >> kBucketBits == op)
      total += sorted[end++].count;
    // The smallest duration that `percent` % of the events do not exceed.
    const auto at = [&](std::uint64_t percent) {
      std::uint64_t wanted = (total * percent + 99) / 100;
      std::size_t i = begin;
      while (i + 1 < end && sorted[i].count < wanted) wanted -= sorted[i++].count;
      return MiddleOf(static_cast<std::uint32_t>(sorted[i].key & ((1u << kBucketBits) - 1)));
    };
    const bool complete = op >= incomplete_.size() || !incomplete_[op];
    if (op < ops && complete) quantiles[op] = {at(50), at(99)};
    begin = end;
  }
  return quantiles;
}

}  // namespace strobe::digest
