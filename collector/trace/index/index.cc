#include "collector/trace/index/index.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::index {

namespace {

template <typename T>
bool Take(std::string_view file, const Extent& extent, std::span<const T>& values) {
  if (extent.offset % 8 != 0 || extent.size % sizeof(T) != 0) return false;
  if (extent.offset > file.size() || extent.size > file.size() - extent.offset) return false;
  values = {reinterpret_cast<const T*>(file.data() + extent.offset), extent.size / sizeof(T)};
  return true;
}

template <typename T>
bool Take(std::string_view file, const Extent& extent, std::vector<T>& values) {
  std::span<const T> there;
  if (!Take(file, extent, there)) return false;
  values.assign(there.begin(), there.end());
  return true;
}

bool Take(std::string_view file, const Extent& extent, std::string_view& bytes) {
  if (extent.offset > file.size() || extent.size > file.size() - extent.offset) return false;
  bytes = file.substr(extent.offset, extent.size);
  return true;
}

}  // namespace

absl::StatusOr<Index> Index::Open(std::string_view bytes) {
  Index index;
  if (bytes.size() < sizeof(Header) || reinterpret_cast<std::uintptr_t>(bytes.data()) % 8 != 0)
    return absl::DataLossError("this is no index");
  std::memcpy(&index.header_, bytes.data(), sizeof(Header));
  const Header& header = index.header_;
  if (header.magic != kMagic) return absl::DataLossError("this is no index");
  if (header.version != kVersion || header.sections != kSections)
    return absl::DataLossError(StrCat("the index has version ", header.version,
                                      ", this program reads ", kVersion,
                                      "; it will be made again"));
  const auto& at = header.extents;
  const bool whole =
      Take(bytes, at[kPlanes], index.planes_) && Take(bytes, at[kRows], index.rows_) &&
      Take(bytes, at[kTracks], index.tracks_) && Take(bytes, at[kLevels], index.levels_) &&
      Take(bytes, at[kBlocks], index.blocks_) && Take(bytes, at[kBuckets], index.buckets_) &&
      Take(bytes, at[kRanges], index.ranges_) && Take(bytes, at[kValues], index.values_) &&
      Take(bytes, at[kLinkBlocks], index.link_blocks_) &&
      Take(bytes, at[kTextEnds], index.text_ends_) &&
      Take(bytes, at[kTextCounts], index.text_counts_) && Take(bytes, at[kTexts], index.texts_) &&
      Take(bytes, at[kEventData], index.event_data_) &&
      Take(bytes, at[kLinkData], index.link_data_) && Take(bytes, at[kDerived], index.derived_);
  if (!whole) return absl::DataLossError("the index is truncated or damaged");
  RETURN_IF_ERROR(index.CheckTables());
  return index;
}

absl::Status Index::CheckTables() const {
  if (header_.begin_ps > header_.end_ps)
    return absl::DataLossError("the index is damaged: it ends before it begins");
  // If rows shared tracks, a small file could ask for the work of rows times tracks.
  std::uint64_t next = 0;
  for (const Row& row : rows_) {
    if (row.plane >= planes_.size() || row.first_track < next || row.first_track > tracks_.size() ||
        row.tracks > tracks_.size() - row.first_track)
      return absl::DataLossError("the index is damaged: a row lies outside");
    next = std::uint64_t{row.first_track} + row.tracks;
  }
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    const std::uint32_t row = tracks_[i].row;
    if (row >= rows_.size() || i < rows_[row].first_track ||
        i - rows_[row].first_track >= rows_[row].tracks)
      return absl::DataLossError("the index is damaged: a track lies outside");
  }
  return absl::OkStatus();
}

std::string_view Index::Text(std::uint32_t id) const {
  if (id >= text_ends_.size()) return "?";
  const std::uint64_t begin = id == 0 ? 0 : text_ends_[id - 1], end = text_ends_[id];
  return begin <= end && end <= texts_.size() ? texts_.substr(begin, end - begin) : "?";
}

std::uint64_t Index::TextCount(std::uint32_t id) const {
  return id < text_counts_.size() ? text_counts_[id] : 0;
}

std::optional<Entry> Index::EntryAt(const Track& track, std::uint64_t ordinal) const {
  const std::span<const Block> all = blocks(track);
  const std::uint64_t block = ordinal / kBlockEvents;
  std::optional<Entry> found;
  if (block >= all.size()) return found;
  std::uint64_t skip = ordinal % kBlockEvents;
  ForEachEntry(all[block], [&](const Entry& entry) {
    if (skip-- == 0) found = entry;
  });
  return found;
}

std::uint64_t Index::FirstFrom(const Track& track, std::int64_t at_ps) const {
  const std::span<const Block> all = blocks(track);
  // The block before the first one that begins at or after `at_ps` may hold events on both sides.
  const auto next = std::lower_bound(all.begin(), all.end(), at_ps,
                                     [](const Block& b, std::int64_t t) { return b.begin_ps < t; });
  if (next == all.begin()) return 0;
  const auto block = static_cast<std::uint64_t>(next - all.begin() - 1);
  std::uint64_t before = 0;
  ForEachEntry(all[block], [&](const Entry& entry) { before += entry.begin_ps < at_ps; });
  return block * kBlockEvents + before;
}

std::uint64_t Index::FirstReaching(const Track& track, std::int64_t at_ps) const {
  if (track.overlapping != 0) {
    std::int64_t from = 0;
    if (__builtin_sub_overflow(at_ps, track.longest_ps, &from))
      from = std::numeric_limits<std::int64_t>::min();
    return FirstFrom(track, from);
  }
  // Without overlaps only the last event that begins before `at_ps` can end after it.
  const std::uint64_t first = FirstFrom(track, at_ps);
  return first == 0 ? 0 : first - 1;
}

void Index::ForEachLink(const Track& track, bool incoming, std::uint64_t from, std::uint64_t to,
                        const std::function<void(const LinkTarget&)>& visit) const {
  const std::span<const LinkBlock> all = incoming ? Part(link_blocks_, track.first_in, track.ins)
                                                  : Part(link_blocks_, track.first_out, track.outs);
  // An event's links may begin in the block before the first one that starts with the event.
  auto block = std::lower_bound(all.begin(), all.end(), from,
                                [](const LinkBlock& b, std::uint64_t o) { return b.ordinal < o; });
  if (block != all.begin()) --block;
  for (; block != all.end() && block->ordinal < to; ++block) {
    wire::VarintReader reader(
        link_data_.substr(std::min<std::uint64_t>(block->data, link_data_.size())));
    LinkTarget link{.ordinal = block->ordinal};
    for (std::uint32_t i = 0; i < std::min(block->links, kBlockEvents); ++i) {
      link.ordinal += static_cast<std::uint32_t>(reader.Next());
      link.track = static_cast<std::uint32_t>(reader.Next());
      link.other += static_cast<std::uint32_t>(wire::UnZigZag(reader.Next()));
      if (link.ordinal >= from && link.ordinal < to && link.track < tracks_.size()) visit(link);
    }
  }
}

// The length is the varint before the event, which is read backwards: all of its bytes but the last
// have the top bit set.
absl::StatusOr<std::string_view> EventAt(std::string_view bytes, std::uint64_t first_place,
                                         std::uint64_t place) {
  const absl::Status unfit = absl::DataLossError("the index does not fit the trace");
  if (place <= first_place || place - first_place > bytes.size()) return unfit;
  const std::size_t begin = place - first_place;
  std::uint64_t length = 0;
  std::size_t at = begin - 1;
  unsigned count = 1;
  while (count < 10 && at > 0 && (static_cast<unsigned char>(bytes[at - 1]) & 0x80) != 0)
    --at, ++count;
  for (unsigned i = 0; i < count; ++i)
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + i]) & 0x7f) << 7 * i;
  if (length > bytes.size() - begin) return unfit;
  return bytes.substr(begin, length);
}

}  // namespace strobe::index
