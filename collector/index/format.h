// The level-of-detail index of one trace, as it lies in a file: what a viewer needs to draw any
// window at any zoom without reading the trace again. Little-endian, all sections on 8 bytes.
//
//   Header, then the sections in the order of `Section`.
//
// A row is a line of the trace. A track is one lane of a row at one depth: its events, ordered by
// begin, do not overlap (but see Track::overlapping). Events lie in blocks of kBlockEvents, each a
// run of varints:
//   begin less that of the event before, duration, name, place in the trace less that of the event
//   before (zigzag)
// with the block's own begin and place as what is before the first. Times are picoseconds from the
// trace's zero.
//
// Of every track there are buckets at several levels: bucket `slot` of level L holds what begins in
// [slot << L, slot + 1 << L). Counts over all buckets of a level add up to the track's events.
#pragma once
#include <array>
#include <cstdint>

namespace strobe::index {

inline constexpr std::array<char, 8> kMagic = {'S', 'T', 'R', 'O', 'B', 'E', 'I', 'X'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kBlockEvents = 64;

enum Section : std::uint32_t {
  kPlanes,      // Plane
  kRows,        // Row
  kTracks,      // Track
  kLevels,      // Level
  kBlocks,      // Block
  kBuckets,     // Bucket
  kRanges,      // Range of the values of each block of a counter
  kValues,      // double of each event of a counter
  kLinkBlocks,  // LinkBlock
  kTextEnds,    // std::uint64_t per text
  kTextCounts,  // std::uint64_t per text: events of that name
  kTexts,       // bytes
  kEventData,   // bytes
  kLinkData,    // bytes
  kDerived,     // An encoded XSpace: lines that the trace itself does not hold
  kSections
};

struct Extent {
  std::uint64_t offset = 0, size = 0;  // Bytes from the file's begin.
};

// What an index was made from. One that does not match its trace is stale.
struct Source {
  std::uint64_t size = 0;
  std::uint64_t mark = 0;  // Of pieces from all over the file; see SourceOf.

  friend bool operator==(const Source&, const Source&) = default;
};

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion, sections = kSections;
  Source source{};
  std::uint64_t events = 0;
  std::int64_t begin_ps = 0, end_ps = 0;  // Of the first and the last event.
  std::array<Extent, kSections> extents{};
};

struct Plane {
  std::uint32_t name = 0;  // Text.
  std::uint32_t first_row = 0, rows = 0, unused = 0;
  std::int64_t id = 0;
};

enum class RowKind : std::uint32_t { kSpans, kCounter };

struct Row {
  std::uint32_t plane = 0, name = 0;  // Text.
  std::uint32_t first_track = 0, tracks = 0;
  RowKind kind = RowKind::kSpans;
  // 0: its events are the trace's. Else they are those of plane `derived` - 1 of kDerived, and
  // their places count on behind the trace's end.
  std::uint32_t derived = 0;
  std::int64_t id = 0;  // Of the line.
  std::uint64_t events = 0;
};

struct Track {
  std::uint32_t row = 0, lane = 0, depth = 0;
  // 1: events may overlap, because lanes or depth ran out. Whoever looks for what reaches into a
  // window goes back by `longest_ps`.
  std::uint32_t overlapping = 0;
  std::uint64_t events = 0;
  std::uint64_t first_block = 0, blocks = 0;
  std::uint64_t first_level = 0, levels = 0;
  std::uint64_t first_value = 0;  // Counters: of kValues; `first_range` of kRanges.
  std::uint64_t first_range = 0;
  std::uint64_t first_out = 0, outs = 0, first_in = 0, ins = 0;  // Of kLinkBlocks.
  std::int64_t end_ps = 0, longest_ps = 0;
};

struct Level {
  std::uint32_t level = 0, unused = 0;
  std::uint64_t first = 0, count = 0;  // Of kBuckets.
};

struct Block {
  std::int64_t begin_ps = 0, end_ps = 0;  // First begin, latest end.
  std::uint64_t data = 0;                 // Of kEventData.
  std::uint64_t place = 0;                // In the trace, of the first event.
  std::uint64_t names = 0;                // Bit name % 64 of each event.
  float busy_ps = 0, longest_ps = 0;
  std::uint32_t name = 0;     // Of the longest,
  std::uint16_t longest = 0;  // and its number within the block.
  std::uint16_t events = 0;   // kBlockEvents, or fewer in a track's last.
};

struct Bucket {
  std::int64_t slot = 0;
  std::uint32_t count = 0;
  std::uint32_t name = 0;     // Of the longest event,
  std::uint32_t ordinal = 0;  // its number on the track
  std::uint32_t at = 0;       // and where it begins, as 2^-32 of the slot.
  float longest_ps = 0, busy_ps = 0;
};

struct Range {
  double least = 0, most = 0;
};

// Up to kBlockEvents arrows of a track's events, ordered by event: ordinal less the one before,
// other track, other ordinal less the one before (zigzag), as varints.
struct LinkBlock {
  std::uint32_t ordinal = 0, links = 0;  // Of the first.
  std::uint64_t data = 0;                // Of kLinkData.
};

}  // namespace strobe::index
