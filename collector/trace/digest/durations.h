// Counts durations per operation, so that their quantiles are known within 2 %. Operations share a
// table, because most of them have few different durations.
#pragma once
#include <cstdint>
#include <vector>

namespace strobe::digest {

class Durations {
 public:
  // At most this many pairs of operation and duration are counted, so that hostile traces cannot
  // fill the memory.
  static constexpr std::size_t kMaxPairs = std::size_t{1} << 17;

  // `op` is below kMaxOps.
  static constexpr std::uint32_t kMaxOps = 1u << 20;
  void Add(std::uint32_t op, std::int64_t duration);

  struct Quantiles {
    std::int64_t p50 = 0, p99 = 0;
  };
  // By operation, for the operations 0 to `ops` - 1. Zeros for one without durations, and for one
  // of which durations were left out, because the rest would be biased.
  std::vector<Quantiles> Compute(std::size_t ops) const;

  // The bucket of a duration, and the middle of the bucket. Exposed for tests.
  static std::uint32_t BucketOf(std::int64_t duration);
  static std::int64_t MiddleOf(std::uint32_t bucket);

 private:
  static constexpr unsigned kBucketBits = 11;
  // Small, because most of the time is spent on reaching them.
  struct Slot {
    std::uint32_t key = 0;  // The operation and the bucket, plus 1; 0 = empty.
    std::uint32_t count = 0;
  };
  Slot& Find(std::uint32_t key);
  void Grow();

  static constexpr unsigned kFirstBits = 10;
  std::vector<Slot> slots_ = std::vector<Slot>(std::size_t{1} << kFirstBits);
  unsigned shift_ = 64 - kFirstBits;  // Shifts a hash, which becomes the number of a slot.
  std::size_t used_ = 0;
  std::vector<bool> incomplete_{};  // By operation: durations were left out; it may be shorter.
};

}  // namespace strobe::digest
