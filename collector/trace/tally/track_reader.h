// Reads the events of a track in the order of their begins, a block at a time, with the links that
// leave them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collector/trace/index/index.h"

namespace strobe::tally {

enum class Links : std::uint8_t { kLeftOut, kRead };

class TrackReader {
 public:
  // `track`: its number in the index, which must outlive this.
  TrackReader(const index::Index& index, std::uint32_t track, Links links);

  bool more() const { return at_ < entries_.size(); }
  // The next event and what leaves it; only if more(). Valid until the call of Advance().
  const index::Entry& entry() const { return entries_[at_]; }
  std::span<const index::LinkTarget> links() const;
  std::uint32_t track() const { return track_; }
  std::uint32_t depth() const { return depth_; }
  void Advance();

 private:
  void ReadBlock();
  std::uint64_t ordinal() const { return first_ + at_; }

  const index::Index* index_;
  std::uint32_t track_ = 0, depth_ = 0;
  Links wanted_;
  std::size_t next_block_ = 0;
  std::uint64_t first_ = 0;  // The ordinal of entries_[0].
  std::size_t at_ = 0, link_at_ = 0;
  std::vector<index::Entry> entries_{};     // The block's.
  std::vector<index::LinkTarget> links_{};  // What leaves its events, by ordinal.
};

// The events of several tracks, such as those of a lane, in the order of their begins; of equal
// begins, the longer one first, and of equal spans, the outer one.
class LaneReader {
 public:
  // `tracks`: their numbers.
  LaneReader(const index::Index& index, std::span<const std::uint32_t> tracks, Links links);

  // The reader whose event is the next one; null at the end.
  const TrackReader* next() const { return heap_.empty() ? nullptr : &readers_[heap_.front()]; }
  void Advance();

 private:
  bool IsLater(std::size_t a, std::size_t b) const;

  std::vector<TrackReader> readers_{};
  std::vector<std::size_t> heap_{};  // Numbers of readers with events; the next one is in front.
};

// The tracks of a row.
std::vector<std::uint32_t> TracksOf(const index::Row& row);
// The tracks of a row, by lane; each lane's in the order of their depths.
std::vector<std::vector<std::uint32_t>> LanesOf(const index::Index& index, const index::Row& row);

// Tells how long events of devices take, which are asked about in nearly the order of their begins.
class Durations {
 public:
  explicit Durations(const index::Index& index) : index_(&index), kept_(index.tracks().size()) {}

  // The event with this ordinal of a track; its name is 0 and its length 0 if there is none.
  index::Entry At(std::uint32_t track, std::uint64_t ordinal);

 private:
  struct Kept {
    std::uint64_t block = 0;
    std::vector<index::Entry> entries{};  // Empty: no block is kept.
  };
  const index::Index* index_;
  std::vector<Kept> kept_;  // The block of each track that was asked about last.
};

}  // namespace strobe::tally
