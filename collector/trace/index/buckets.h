// Makes the buckets of a track at one level, and merges them into those of coarser levels.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "collector/trace/index/format.h"

namespace strobe::index {

// Takes the events of a track in the order of their begins. Whenever the buckets become too many
// for the number of events, it moves on to a coarser level, so that buckets stay a small part of an
// index.
class BucketMaker {
 public:
  void Add(std::int64_t begin_ps, std::int64_t duration_ps, std::uint32_t name,
           std::uint32_t ordinal);

  std::uint32_t level() const { return level_; }
  std::vector<Bucket> Take() { return std::move(buckets_); }

 private:
  std::uint32_t level_ = 10;  // Slots of 2^10 ps, which is about a nanosecond.
  std::uint64_t events_ = 0;
  std::vector<Bucket> buckets_;
};

// Only every kLevelStep-th level is stored. A window at a level in between is made from the next
// finer stored one.
inline constexpr std::uint32_t kLevelStep = 2;
// At this level two slots, one on each side of zero, hold all times that 64 bits can express.
inline constexpr std::uint32_t kCoarsest = 62;

// Moves all buckets `by` levels up, in place, and merges those that then share a slot.
void Coarsen(std::uint32_t by, std::vector<Bucket>& buckets);

// Adds `from` to `bucket`, which has the same slot.
void MergeInto(const Bucket& from, Bucket& bucket);

// Returns the same bucket as it is `by` levels up.
Bucket Raised(const Bucket& bucket, std::uint32_t by);

}  // namespace strobe::index
