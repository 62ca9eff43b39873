#include "collector/trace/index/track_writer.h"

#include <algorithm>

#include "collector/trace/xplane/varint.h"

namespace strobe::index {

void TrackWriter::Add(std::int64_t begin_ps, std::int64_t end_ps, std::uint32_t name,
                      std::uint64_t place) {
  if (events_ % kBlockEvents == 0) {
    // Differences begin anew, because each block is decoded by itself.
    blocks.push_back(
        {.begin_ps = begin_ps, .end_ps = end_ps, .data = data.size(), .offset = place});
    last_begin_ = begin_ps;
    last_place_ = place;
  }
  const std::int64_t duration = end_ps - begin_ps;
  char* at = data.WriteSpace();
  // Unsigned, because a hostile trace may have events further apart than 63 bits can tell.
  wire::PutVarint(static_cast<std::uint64_t>(begin_ps) - static_cast<std::uint64_t>(last_begin_),
                  at);
  wire::PutVarint(static_cast<std::uint64_t>(duration), at);
  wire::PutVarint(name, at);
  wire::PutVarint(wire::ZigZag(static_cast<std::int64_t>(place - last_place_)), at);
  data.Wrote(at);
  last_begin_ = begin_ps;
  last_place_ = place;

  Block& block = blocks.back();
  block.end_ps = std::max(block.end_ps, end_ps);
  // A Bloom filter: searches skip blocks that cannot hold a name.
  block.names |= std::uint64_t{1} << name % 64;
  block.busy_ps += static_cast<float>(duration);
  if (block.events == 0 || static_cast<float>(duration) > block.longest_ps) {
    block.longest_ps = static_cast<float>(duration);
    block.name = name;
    block.longest = block.events;
  }
  ++block.events;
  track.end_ps = events_ == 0 ? end_ps : std::max(track.end_ps, end_ps);
  track.longest_ps = std::max(track.longest_ps, duration);
  buckets_.Add(begin_ps, duration, name, events_);
  ++events_;
}

void TrackWriter::AddValue(std::int64_t at_ps, std::uint32_t name, std::uint64_t place,
                           double value) {
  if (events_ % kBlockEvents == 0) ranges.push_back({value, value});
  ranges.back().least = std::min(ranges.back().least, value);
  ranges.back().most = std::max(ranges.back().most, value);
  values.push_back(value);
  Add(at_ps, at_ps, name, place);
}

std::int64_t TrackWriter::BeginOf(std::uint32_t ordinal) const {
  const Block& block = blocks[ordinal / kBlockEvents];
  std::uint64_t skipped = block.data - blocks.front().data;
  auto begin = static_cast<std::uint64_t>(block.begin_ps);
  std::uint32_t left = ordinal % kBlockEvents + 1;
  for (const std::string_view chunk : data.all()) {  // A block may span two, an event does not.
    if (skipped >= chunk.size()) {
      skipped -= chunk.size();
      continue;
    }
    for (wire::VarintReader reader(chunk.substr(skipped)); !reader.done();) {
      begin += reader.Next();
      for (int other = 0; other < 3; ++other) reader.Next();  // Duration, name and place.
      if (--left == 0) return static_cast<std::int64_t>(begin);
    }
    skipped = 0;
  }
  return static_cast<std::int64_t>(begin);
}

void TrackWriter::Finish() {
  constexpr std::size_t kFew = 32;  // Read at once; coarser levels would save nothing.
  track.events = events_;
  data.Shrink();
  blocks.shrink_to_fit();
  values.shrink_to_fit();
  finest = buckets_.level();
  levels.push_back(buckets_.Take());
  levels.back().shrink_to_fit();
  for (std::uint32_t level = finest; levels.back().size() > kFew && level + kLevelStep <= kCoarsest;
       level += kLevelStep) {
    std::vector<Bucket> coarser = levels.back();
    Coarsen(kLevelStep, coarser);
    coarser.shrink_to_fit();
    levels.push_back(std::move(coarser));
  }
}

}  // namespace strobe::index
