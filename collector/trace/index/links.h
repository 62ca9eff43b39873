// Links between events. A link leads from the event that starts a piece of work, such as a kernel's
// launch, to the event that does it; viewers draw it as an arrow.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collector/trace/index/chunks.h"
#include "collector/trace/index/format.h"

namespace strobe::index {

// One end of a link: an event that carries the id of the flow which it produces or consumes.
struct LinkEnd {
  std::uint64_t id = 0;
  std::uint32_t track = 0, ordinal = 0;

  // The direction is a bit of `track`, which keeps an end small: there may be one per event.
  static constexpr std::uint32_t kIncoming = 1u << 31;
  bool incoming() const { return (track & kIncoming) != 0; }
};

// The ends of one line, packed into about a fifth of their size. They have to be kept until all
// lines are read. Those of a long line are kept in parts, each with the ends of some ids, so that
// one part of all lines after the other can be joined and freed.
class PackedEnds {
 public:
  static constexpr unsigned kParts = 16;
  // The part to which an id belongs.
  static unsigned PartOf(std::uint64_t id) {
    return static_cast<unsigned>(id * 0x9e3779b97f4a7c15 >> 60);
  }

  PackedEnds() : PackedEnds(nullptr) {}
  explicit PackedEnds(Spill* spill) : spill_(spill) { parts_.push_back({.bytes = Chunks(spill)}); }

  // Called before the first Add if the line has enough events for parts to be worth their memory.
  void Split() {
    while (parts_.size() < kParts) parts_.push_back({.bytes = Chunks(spill_)});
  }
  void Add(const LinkEnd& end);
  std::size_t size() const { return size_; }
  void Shrink();
  // Appends the ends of the parts [first, last) to `ends`, adding `first_track` to their tracks.
  // Each part is asked for once, in their order, and freed here as far as possible.
  void Unpack(unsigned first, unsigned last, std::uint32_t first_track, std::vector<LinkEnd>& ends);

 private:
  struct Part {
    Chunks bytes{};
    LinkEnd last{};
  };
  Spill* spill_;
  std::vector<Part> parts_;
  std::size_t size_ = 0;
};

struct Link {
  std::uint32_t track = 0, ordinal = 0;              // The event whose list it is in.
  std::uint32_t other_track = 0, other_ordinal = 0;  // The event that it leads to or comes from.
};

// When an event begins.
using BeginOf = std::function<std::int64_t(std::uint32_t track, std::uint32_t ordinal)>;

// Links the ends that share an id, from producer to consumer. With one end on a side, it is linked
// with every end of the other side. With as many on both, which is an id that is used again, the
// first to begin is linked with the first, the second with the second, and so on: clocks of devices
// may be off, so that a consumer seems to begin before its producer. Otherwise, and if an event has
// both ends because it is in the middle of a flow, each consumer is linked with the latest producer
// that begins before it, or else with the first one. No event is linked with itself. Ends without a
// partner are left out. Sorts `ends` and overwrites `links`; the next call can use the memory of
// both again.
void JoinEnds(std::vector<LinkEnd>& ends, std::size_t threads, const BeginOf& begin_of,
              std::vector<Link>& links);

// Lists of links for the tracks [0, tracks).
struct LinkLists {
  Chunks data;
  std::vector<LinkBlock> blocks;
  std::vector<std::uint64_t> first_block;  // By track; the last entry is the number of blocks.
};

// The links of all lines, by the event that they come from and by the one that they lead to.
struct JoinedLinks {
  LinkLists outs{}, ins{};
};
struct LineEnds {
  PackedEnds* ends = nullptr;
  std::uint32_t first_track = 0;
};
// An end is 16 bytes and a link as many, so that this bounds the memory beside the packed ends.
inline constexpr std::size_t kMaxEndsAtOnce = std::size_t{2} << 20;
// Joins the ends of all lines, about `at_once` of them at a time, and frees them. With `spill`, the
// links are in its file.
JoinedLinks JoinLines(const std::vector<LineEnds>& lines, std::uint32_t tracks, std::size_t threads,
                      const BeginOf& begin_of, std::size_t at_once = kMaxEndsAtOnce,
                      Spill* spill = nullptr);

}  // namespace strobe::index
