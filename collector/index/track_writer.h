// Encodes the events of one track.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "collector/index/buckets.h"
#include "collector/index/chunks.h"
#include "collector/index/format.h"

namespace strobe::index {

class TrackWriter {
 public:
  // In the order of begins.
  void Add(std::int64_t begin_ps, std::int64_t end_ps, std::uint32_t name, std::uint64_t place);
  // Of a counter: its value too.
  void AddValue(std::int64_t at_ps, std::uint32_t name, std::uint64_t place, double value);

  std::uint32_t events() const { return events_; }

  // What has been encoded. Offsets count from the track's own begin; levels from the finest.
  Track track{};
  Chunks data;
  std::vector<Block> blocks;
  std::vector<std::vector<Bucket>> levels;
  std::uint32_t finest = 0;
  std::vector<double> values;
  std::vector<Range> ranges;

  void Finish();

 private:
  std::uint32_t events_ = 0;
  std::int64_t last_begin_ = 0;
  std::uint64_t last_place_ = 0;
  BucketMaker buckets_;
};

}  // namespace strobe::index
