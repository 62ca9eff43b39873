// Links between events. A link leads from the event that starts a piece of work, such as a kernel's
// launch, to the event that does it; viewers draw it as an arrow.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "collector/index/chunks.h"
#include "collector/index/format.h"

namespace strobe::index {

// One end of a link: an event that carries the id of the flow which it produces or consumes.
struct LinkEnd {
  std::uint64_t id = 0;
  std::uint32_t track = 0, ordinal = 0;

  // The direction is a bit of `track`, which keeps an end small: there may be one per event.
  static constexpr std::uint32_t kIncoming = 1u << 31;
  bool incoming() const { return (track & kIncoming) != 0; }
};

// The ends of one line, packed into about a tenth of their size. They have to be kept until all
// lines are read.
class PackedEnds {
 public:
  void Add(const LinkEnd& end);
  std::size_t size() const { return size_; }
  void Shrink() { bytes_.Shrink(); }
  // Appends all ends to `ends`, adding `first_track` to their tracks, and frees them here.
  void Unpack(std::uint32_t first_track, std::vector<LinkEnd>& ends);

 private:
  Chunks bytes_;
  std::size_t size_ = 0;
  LinkEnd last_{};
};

struct Link {
  std::uint32_t track = 0, ordinal = 0;              // The event whose list it is in.
  std::uint32_t other_track = 0, other_ordinal = 0;  // The event that it leads to or comes from.
};

// Links the ends that share an id, from producer to consumer. With one end on a side, it is linked
// with every end of the other side. With several on both, the first is linked with the first, the
// second with the second, and so on. Ends without a partner are left out.
std::vector<Link> JoinEnds(std::vector<LinkEnd> ends, std::size_t threads);

struct LinkLists {
  Chunks data;
  std::vector<LinkBlock> blocks;
  std::vector<std::uint64_t> first_block;  // By track; the last entry is the number of blocks.
};
// Encodes the lists of tracks [0, tracks). `links` are sorted as by SortLinks.
LinkLists EncodeLinks(const std::vector<Link>& links, std::uint32_t tracks);

// Sorts links by track and ordinal.
void SortLinks(std::vector<Link>& links, std::size_t threads);
// Swaps the two ends of each link and sorts the links again.
void ReverseLinks(std::vector<Link>& links, std::size_t threads);

}  // namespace strobe::index
