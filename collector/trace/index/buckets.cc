#include "collector/trace/index/buckets.h"

#include <algorithm>
#include <cmath>

namespace strobe::index {
namespace {

// A track gets at most kMinBuckets buckets and two per kEventsPerBucket events.
constexpr std::uint64_t kEventsPerBucket = 24;
constexpr std::uint64_t kMinBuckets = 64;

}  // namespace

Bucket Raised(const Bucket& bucket, std::uint32_t by) {
  if (by == 0) return bucket;
  Bucket raised = bucket;
  raised.slot = bucket.slot >> by;
  const std::uint64_t within = static_cast<std::uint64_t>(bucket.slot - (raised.slot << by));
  raised.at = by >= 32 ? static_cast<std::uint32_t>(within >> (by - 32))
                       : static_cast<std::uint32_t>(within << (32 - by) | bucket.at >> by);
  return raised;
}

void MergeInto(const Bucket& from, Bucket& bucket) {
  bucket.count += from.count;
  bucket.busy_ps += from.busy_ps;
  if (from.longest_ps <= bucket.longest_ps) return;
  bucket.longest_ps = from.longest_ps;
  bucket.name = from.name;
  bucket.ordinal = from.ordinal;
  bucket.at = from.at;
}

void Coarsen(std::uint32_t by, std::vector<Bucket>& buckets) {
  std::size_t kept = 0;
  for (const Bucket& bucket : buckets) {
    const Bucket raised = Raised(bucket, by);
    if (kept > 0 && buckets[kept - 1].slot == raised.slot)
      MergeInto(raised, buckets[kept - 1]);
    else
      buckets[kept++] = raised;
  }
  buckets.resize(kept);
}

void BucketMaker::Add(std::int64_t begin_ps, std::int64_t duration_ps, std::uint32_t name,
                      std::uint32_t ordinal) {
  ++events_;
  Bucket bucket{.slot = begin_ps >> level_, .count = 1, .name = name, .ordinal = ordinal};
  const auto within = static_cast<std::uint64_t>(begin_ps - (bucket.slot << level_));
  bucket.at = level_ >= 32 ? static_cast<std::uint32_t>(within >> (level_ - 32))
                           : static_cast<std::uint32_t>(within << (32 - level_));
  bucket.longest_ps = bucket.busy_ps = static_cast<float>(duration_ps);
  if (!buckets_.empty() && buckets_.back().slot == bucket.slot) {
    MergeInto(bucket, buckets_.back());
    return;
  }
  buckets_.push_back(bucket);
  while (buckets_.size() > kMinBuckets + 2 * events_ / kEventsPerBucket && level_ < kCoarsest) {
    Coarsen(kLevelStep, buckets_);
    level_ += kLevelStep;
  }
}

}  // namespace strobe::index
