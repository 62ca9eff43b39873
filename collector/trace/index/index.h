// Reads an index. The bytes are not trusted: whatever they say, no call reads outside of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/index/format.h"
#include "collector/trace/xplane/varint.h"

namespace strobe::index {

// Begins and lengths that a hostile trace or a damaged index tells are brought within this, about
// 26 days, so that readers can add several without overflow.
inline constexpr std::int64_t kMaxEntryPs = std::int64_t{1} << 61;

// An event as the index keeps it.
struct Entry {
  std::int64_t begin_ps = 0, duration_ps = 0;
  std::uint32_t name = 0;    // A text's number.
  std::uint64_t offset = 0;  // The offset of its bytes in the trace.

  // Unsigned, because signed overflow, which a hostile file could cause, is undefined.
  std::int64_t end_ps() const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(begin_ps) +
                                     static_cast<std::uint64_t>(duration_ps));
  }
};

struct LinkTarget {
  std::uint32_t ordinal = 0;           // The ordinal of the event that was asked about.
  std::uint32_t track = 0, other = 0;  // The other event's track and ordinal.
};

class Index {
 public:
  // DataLoss when the bytes are no index, a damaged one, or one of another version. They must be
  // aligned on 8 bytes and outlive the index.
  static absl::StatusOr<Index> Open(std::string_view bytes);

  const Header& header() const { return header_; }
  std::span<const Plane> planes() const { return planes_; }
  std::span<const Row> rows() const { return rows_; }
  std::span<const Row> rows(const Plane& plane) const {
    return Part(std::span<const Row>(rows_), plane.first_row, plane.rows);
  }
  std::span<const Track> tracks() const { return tracks_; }
  std::span<const Level> levels(const Track& track) const {
    return Part(levels_, track.first_level, track.levels);
  }
  std::span<const Block> blocks(const Track& track) const {
    return Part(blocks_, track.first_block, track.blocks);
  }
  std::span<const Bucket> buckets(const Level& level) const {
    return Part(buckets_, level.first, level.count);
  }
  std::span<const double> values(const Track& track) const {
    return Part(values_, track.first_value, track.events);
  }
  std::span<const Range> ranges(const Track& track) const {
    return Part(ranges_, track.first_range, track.blocks);
  }
  // An encoded XSpace with the lines that DeriveLines added to the trace.
  std::string_view derived() const { return derived_; }
  std::uint32_t texts() const { return static_cast<std::uint32_t>(text_ends_.size()); }
  std::string_view Text(std::uint32_t id) const;  // "?" when there is no such text.
  // How many events have that name.
  std::uint64_t TextCount(std::uint32_t id) const;

  // Calls `visit(const Entry&)` for each event of a block, in order.
  template <typename Visit>
  void ForEachEntry(const Block& block, const Visit& visit) const {
    wire::VarintReader reader(
        event_data_.substr(std::min<std::uint64_t>(block.data, event_data_.size())));
    Entry entry{.offset = block.offset};
    auto begin = static_cast<std::uint64_t>(block.begin_ps);
    for (std::uint32_t i = 0; i < std::min<std::uint32_t>(block.events, kBlockEvents); ++i) {
      begin += reader.Next();
      entry.begin_ps = std::clamp(static_cast<std::int64_t>(begin), -kMaxEntryPs, kMaxEntryPs);
      entry.duration_ps = static_cast<std::int64_t>(
          std::min(reader.Next(), static_cast<std::uint64_t>(kMaxEntryPs)));
      entry.name = static_cast<std::uint32_t>(reader.Next());
      entry.offset += static_cast<std::uint64_t>(wire::UnZigZag(reader.Next()));
      visit(entry);
    }
  }
  // Calls `visit(std::uint64_t ordinal, const Entry&)` for the events with ordinals in [first,
  // last).
  template <typename Visit>
  void ForEachEntry(const Track& track, std::uint64_t first, std::uint64_t last,
                    const Visit& visit) const {
    const std::span<const Block> all = blocks(track);
    for (std::uint64_t block = first / kBlockEvents;
         block < all.size() && block * kBlockEvents < last; ++block) {
      std::uint64_t ordinal = block * kBlockEvents;
      ForEachEntry(all[block], [&](const Entry& entry) {
        if (ordinal >= first && ordinal < last) visit(ordinal, entry);
        ++ordinal;
      });
    }
  }
  // The event with that ordinal; nullopt when there is none.
  std::optional<Entry> EntryAt(const Track& track, std::uint64_t ordinal) const;
  // The ordinal of the first event that begins at or after `at_ps`.
  std::uint64_t FirstFrom(const Track& track, std::int64_t at_ps) const;
  // An ordinal before which no event ends after `at_ps`.
  std::uint64_t FirstReaching(const Track& track, std::int64_t at_ps) const;

  // Visits the links that leave (or, if `incoming`, reach) events with ordinals in [from, to).
  void ForEachLink(const Track& track, bool incoming, std::uint64_t from, std::uint64_t to,
                   const std::function<void(const LinkTarget&)>& visit) const;

 private:
  // DataLoss unless it ends after it began and its rows and tracks belong to each other.
  absl::Status CheckTables() const;
  template <typename T>
  static std::span<const T> Part(std::span<const T> all, std::uint64_t first, std::uint64_t count) {
    if (first > all.size()) return {};
    return all.subspan(first, std::min<std::uint64_t>(count, all.size() - first));
  }

  // These are copies, so that what Open has checked stays true if the mapped file is changed later.
  Header header_;
  std::vector<Plane> planes_;
  std::vector<Row> rows_;
  std::vector<Track> tracks_;
  std::span<const Level> levels_;
  std::span<const Block> blocks_;
  std::span<const Bucket> buckets_;
  std::span<const Range> ranges_;
  std::span<const double> values_;
  std::span<const LinkBlock> link_blocks_;
  std::span<const std::uint64_t> text_ends_, text_counts_;
  std::string_view texts_, event_data_, link_data_, derived_;
};

// The bytes of the event that begins at `place`. `bytes` are those of the trace or of the derived
// lines, of which the first one has the place `first_place`. DataLoss when there cannot be any.
absl::StatusOr<std::string_view> EventAt(std::string_view bytes, std::uint64_t first_place,
                                         std::uint64_t place);

}  // namespace strobe::index
