// Encodes the events of one track into the records of an index (see format.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "collector/trace/index/buckets.h"
#include "collector/trace/index/chunks.h"
#include "collector/trace/index/format.h"

namespace strobe::index {

class TrackWriter {
 public:
  TrackWriter() = default;
  // With `spill`, which may be null, the encoded events are in its file.
  explicit TrackWriter(Spill* spill) : data(spill) {}

  // Adds an event. Events come in the order of their begins. `name` is a text's number, `place` the
  // offset of the event's bytes in the trace.
  void Add(std::int64_t begin_ps, std::int64_t end_ps, std::uint32_t name, std::uint64_t place);
  // Adds a sample of a counter.
  void AddValue(std::int64_t at_ps, std::uint32_t name, std::uint64_t place, double value);

  std::uint32_t events() const { return events_; }
  // When an event begins, which is read from its block.
  std::int64_t BeginOf(std::uint32_t ordinal) const;

  // Ends the encoding; afterwards the members below are complete.
  void Finish();

  // The encoded records. Offsets in them count from the track's own first byte or record.
  Track track{};
  Chunks data;
  std::vector<Block> blocks;
  std::vector<std::vector<Bucket>> levels;  // The finest first; then every kLevelStep-th.
  std::uint32_t finest = 0;                 // The level of levels[0].
  std::vector<double> values;
  std::vector<Range> ranges;

 private:
  std::uint32_t events_ = 0;
  std::int64_t last_begin_ = 0;
  std::uint64_t last_place_ = 0;
  BucketMaker buckets_;
};

}  // namespace strobe::index
