#include "collector/trace/tally/track_reader.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace strobe::tally {

TrackReader::TrackReader(const index::Index& index, std::uint32_t track, Links links)
    : index_(&index), track_(track), depth_(index.tracks()[track].depth), wanted_(links) {
  ReadBlock();
}

void TrackReader::ReadBlock() {
  const index::Track& track = index_->tracks()[track_];
  const std::span<const index::Block> blocks = index_->blocks(track);
  entries_.clear();
  links_.clear();
  at_ = link_at_ = 0;
  while (entries_.empty() && next_block_ < blocks.size()) {
    first_ = std::uint64_t{next_block_} * index::kBlockEvents;
    index_->ForEachEntry(blocks[next_block_++],
                         [&](const index::Entry& entry) { entries_.push_back(entry); });
  }
  if (wanted_ == Links::kLeftOut || entries_.empty()) return;
  index_->ForEachLink(track, /*incoming=*/false, first_, first_ + entries_.size(),
                      [&](const index::LinkTarget& link) { links_.push_back(link); });
}

std::span<const index::LinkTarget> TrackReader::links() const {
  std::size_t end = link_at_;
  while (end < links_.size() && links_[end].ordinal == ordinal()) ++end;
  return std::span<const index::LinkTarget>(links_).subspan(link_at_, end - link_at_);
}

void TrackReader::Advance() {
  if (++at_ == entries_.size()) return ReadBlock();
  while (link_at_ < links_.size() && links_[link_at_].ordinal < ordinal()) ++link_at_;
}

LaneReader::LaneReader(const index::Index& index, std::span<const std::uint32_t> tracks,
                       Links links) {
  for (const std::uint32_t track : tracks) {
    readers_.emplace_back(index, track, links);
    if (readers_.back().more())
      heap_.push_back(readers_.size() - 1);
    else
      readers_.pop_back();
  }
  std::make_heap(heap_.begin(), heap_.end(),
                 [this](std::size_t a, std::size_t b) { return IsLater(a, b); });
}

bool LaneReader::IsLater(std::size_t a, std::size_t b) const {
  const TrackReader &x = readers_[a], &y = readers_[b];
  return std::tuple(x.entry().begin_ps, y.entry().end_ps(), x.depth()) >
         std::tuple(y.entry().begin_ps, x.entry().end_ps(), y.depth());
}

void LaneReader::Advance() {
  const auto later = [this](std::size_t a, std::size_t b) { return IsLater(a, b); };
  std::pop_heap(heap_.begin(), heap_.end(), later);
  TrackReader& reader = readers_[heap_.back()];
  reader.Advance();
  if (reader.more())
    std::push_heap(heap_.begin(), heap_.end(), later);
  else
    heap_.pop_back();
}

std::vector<std::uint32_t> TracksOf(const index::Row& row) {
  std::vector<std::uint32_t> tracks(row.tracks);
  std::iota(tracks.begin(), tracks.end(), row.first_track);
  return tracks;
}

std::vector<std::vector<std::uint32_t>> LanesOf(const index::Index& index, const index::Row& row) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> lanes;
  for (std::uint32_t i = 0; i < row.tracks; ++i) {
    const std::uint32_t track = row.first_track + i;
    lanes[index.tracks()[track].lane].push_back(track);
  }
  std::vector<std::vector<std::uint32_t>> all;
  for (auto& [lane, tracks] : lanes) {
    std::ranges::stable_sort(tracks, {},
                             [&](std::uint32_t track) { return index.tracks()[track].depth; });
    all.push_back(std::move(tracks));
  }
  return all;
}

index::Entry Durations::At(std::uint32_t track, std::uint64_t ordinal) {
  if (track >= kept_.size()) return {};
  Kept& kept = kept_[track];
  const std::uint64_t block = ordinal / index::kBlockEvents;
  if (kept.entries.empty() || kept.block != block) {
    const std::span<const index::Block> blocks = index_->blocks(index_->tracks()[track]);
    kept.entries.clear();
    kept.block = block;
    if (block >= blocks.size()) return {};
    index_->ForEachEntry(blocks[static_cast<std::size_t>(block)],
                         [&](const index::Entry& entry) { kept.entries.push_back(entry); });
  }
  const std::uint64_t at = ordinal % index::kBlockEvents;
  return at < kept.entries.size() ? kept.entries[static_cast<std::size_t>(at)] : index::Entry{};
}

}  // namespace strobe::tally
