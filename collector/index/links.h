// Arrows between events: from what starts a piece of work to what does it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "collector/index/chunks.h"
#include "collector/index/format.h"

namespace strobe::index {

// One end of an arrow: an event that names a producer's or a consumer's number.
struct LinkEnd {
  std::uint64_t id = 0;
  std::uint32_t track = 0, ordinal = 0;

  // The direction shares a word with the track, for there may be as many ends as events.
  static constexpr std::uint32_t kIncoming = 1u << 31;
  bool incoming() const { return (track & kIncoming) != 0; }
};

// The ends of one line as they come, packed: a tenth of their size until all lines are read.
class PackedEnds {
 public:
  void Add(const LinkEnd& end);
  std::size_t size() const { return size_; }
  void Shrink() { bytes_.Shrink(); }
  // Appends them, their tracks counted from `first_track`, and forgets them.
  void Unpack(std::uint32_t first_track, std::vector<LinkEnd>& ends);

 private:
  Chunks bytes_;
  std::size_t size_ = 0;
  LinkEnd last_{};
};

struct Link {
  std::uint32_t track = 0, ordinal = 0;  // The event on whose list it stands,
  std::uint32_t other_track = 0, other_ordinal = 0;
};

// Joins the ends that share an id, one beginning to one end or to many; with many on both sides,
// the first to the first and so on. Ends without a partner lead nowhere and are left out.
std::vector<Link> JoinEnds(std::vector<LinkEnd> ends, std::size_t threads);

// Encodes links, which are sorted by track and ordinal, for tracks [0, tracks).
struct LinkLists {
  Chunks data;
  std::vector<LinkBlock> blocks;
  std::vector<std::uint64_t> first_block;  // Per track, and one more: where its blocks begin.
};
LinkLists EncodeLinks(const std::vector<Link>& links, std::uint32_t tracks);

// Each link as its other end sees it, sorted for that list.
void TurnRound(std::vector<Link>& links, std::size_t threads);
void SortLinks(std::vector<Link>& links, std::size_t threads);

}  // namespace strobe::index
