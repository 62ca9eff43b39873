// The buckets of a track at one level, and how they become fewer.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "collector/index/format.h"

namespace strobe::index {

// Takes a track's events in their order and keeps the finest level that costs at most a bucket per
// kEventsPerBucket events.
class BucketMaker {
 public:
  void Add(std::int64_t begin_ps, std::int64_t duration_ps, std::uint32_t name,
           std::uint32_t ordinal);

  std::uint32_t level() const { return level_; }
  std::vector<Bucket> Take() { return std::move(buckets_); }

 private:
  std::uint32_t level_ = 10;  // A nanosecond, about.
  std::uint64_t events_ = 0;
  std::vector<Bucket> buckets_;
};

// One level is drawn from the next finer one that is kept; kept are every kLevelStep-th.
inline constexpr std::uint32_t kLevelStep = 2;
// Coarser ones hold all of time in one bucket, or two around zero.
inline constexpr std::uint32_t kCoarsest = 62;

// Merges buckets that share a slot `by` levels up, in place.
void Coarsen(std::uint32_t by, std::vector<Bucket>& buckets);

// Adds `from`, which lies in the same slot.
void MergeInto(const Bucket& from, Bucket& bucket);

// The same bucket `by` levels up.
Bucket Raised(const Bucket& bucket, std::uint32_t by);

}  // namespace strobe::index
