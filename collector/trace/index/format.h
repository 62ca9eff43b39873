// The file format of a trace's level-of-detail index. With it a viewer draws any window at any zoom
// without reading the trace again.
//
// The file is a Header and then the sections in the order of `Section`. Numbers are little-endian
// and every section begins at a multiple of 8 bytes. Times are picoseconds from the trace's zero.
// Names are numbers of texts.
//
// A row is a line of the trace. A track is one lane of a row at one depth: its events are ordered
// by begin and do not overlap (but see Track::overlapping). An event's ordinal is its number on the
// track, from 0. Events are stored in blocks of kBlockEvents; each event is four varints:
//   begin minus the begin of the event before
//   duration
//   name
//   place in the trace minus the place of the event before, zigzag-encoded
// For a block's first event, the begin and place "before" are those in its Block.
//
// Every track has buckets at several levels. Bucket `slot` of level L summarizes the events that
// begin in [slot << L, (slot + 1) << L) ps. The counts of all buckets of a level add up to the
// number of the track's events.
#pragma once
#include <array>
#include <cstdint>

namespace strobe::index {

inline constexpr std::array<char, 8> kMagic = {'S', 'T', 'R', 'O', 'B', 'E', 'I', 'X'};
inline constexpr std::uint32_t kVersion = 3;
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
  std::uint64_t offset = 0, size = 0;  // Bytes; the offset is from the begin of the file.
};

// Identifies the trace that an index was made from; see SourceOf. An index whose source is not that
// of the trace is stale.
struct Source {
  std::uint64_t size = 0;
  std::uint64_t mark = 0;  // A hash.

  friend bool operator==(const Source&, const Source&) = default;
};

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion, sections = kSections;
  Source source{};
  std::uint64_t events = 0;
  std::int64_t begin_ps = 0, end_ps = 0;  // The earliest begin and the latest end of all events.
  std::array<Extent, kSections> extents{};
};

struct Plane {
  std::uint32_t name = 0;
  std::uint32_t first_row = 0, rows = 0, unused = 0;
  std::int64_t id = 0;  // The plane's id in the trace.
};

enum class RowKind : std::uint32_t { kSpans, kCounter };

struct Row {
  std::uint32_t plane = 0, name = 0;
  std::uint32_t first_track = 0, tracks = 0;
  RowKind kind = RowKind::kSpans;
  // 0: the events are in the trace. Otherwise they are in plane `derived` - 1 of the section
  // kDerived, and their places are the trace's size plus their offset in that section.
  std::uint32_t derived = 0;
  std::int64_t id = 0;  // The line's id in the trace.
  std::uint64_t events = 0;
};

struct Track {
  std::uint32_t row = 0, lane = 0, depth = 0;
  // 1: events may overlap, because there are no more lanes or depths. Events that reach into a
  // window can then begin up to `longest_ps` before it.
  std::uint32_t overlapping = 0;
  std::uint64_t events = 0;
  std::uint64_t first_block = 0, blocks = 0;
  std::uint64_t first_level = 0, levels = 0;
  std::uint64_t first_value = 0;  // In kValues; used by counters only.
  std::uint64_t first_range = 0;  // In kRanges; used by counters only.
  // In kLinkBlocks: the blocks of outgoing and those of incoming links.
  std::uint64_t first_out = 0, outs = 0, first_in = 0, ins = 0;
  std::int64_t end_ps = 0, longest_ps = 0;  // The latest end, and the longest duration.
};

struct Level {
  std::uint32_t level = 0, unused = 0;
  std::uint64_t first = 0, count = 0;  // In kBuckets.
};

struct Block {
  std::int64_t begin_ps = 0, end_ps = 0;  // The first begin and the latest end.
  std::uint64_t data = 0;                 // Offset in kEventData.
  std::uint64_t offset = 0;               // Offset of the first event's bytes in the trace.
  std::uint64_t names = 0;  // Bit (name % 64) of every event, so that a search can skip blocks.
  float busy_ps = 0, longest_ps = 0;  // The sum of all durations, and the longest one.
  std::uint32_t name = 0;             // The longest event's name.
  std::uint16_t longest = 0;          // The longest event's number within the block.
  std::uint16_t events = 0;           // kBlockEvents, or fewer in a track's last block.
};

struct Bucket {
  std::int64_t slot = 0;
  std::uint32_t count = 0;
  std::uint32_t name = 0;     // The longest event's name.
  std::uint32_t ordinal = 0;  // The longest event's ordinal.
  std::uint32_t at = 0;  // Where in the slot the longest event begins, in units of 2^-32 slots.
  float longest_ps = 0, busy_ps = 0;  // As in Block.
};

struct Range {
  double least = 0, most = 0;
};

// Up to kBlockEvents links of a track's events, ordered by ordinal. Each link is three varints:
//   ordinal minus the ordinal of the link before
//   the other event's track
//   the other event's ordinal minus that of the link before, zigzag-encoded
struct LinkBlock {
  std::uint32_t ordinal = 0;  // The first link's ordinal.
  std::uint32_t links = 0;    // How many there are.
  std::uint64_t data = 0;     // Offset in kLinkData.
};

}  // namespace strobe::index
