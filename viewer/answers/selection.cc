#include "viewer/answers/selection.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

namespace strobe::viewer {
namespace {

using index::Entry;
using index::Index;
using index::Track;

// What is selected of one track: pieces of time and ordinals.
struct Wanted {
  std::vector<std::pair<std::int64_t, std::int64_t>> times{};
  std::vector<std::uint32_t> ordinals{};
};

// What is wanted, by row and track.
using WantedTracks = std::map<std::pair<std::uint32_t, std::uint32_t>, Wanted>;

// Reads the events of a track's blocks in the order of their begins, a block at a time.
class EntryReader {
 public:
  EntryReader(const Index& index, std::span<const index::Block> blocks)
      : index_(index), blocks_(blocks) {}

  // The next event that begins in [begin, end), or nullptr. Earlier events are left out for good,
  // so the times of the calls must not decrease. The event is valid until the next call.
  const Entry* Next(std::int64_t begin_ps, std::int64_t end_ps) {
    for (;; ++at_) {
      if (at_ == entries_.size() && !ReadBlock(begin_ps, end_ps)) return nullptr;
      if (entries_[at_].begin_ps >= end_ps) return nullptr;
      if (entries_[at_].begin_ps >= begin_ps) return &entries_[at_++];
    }
  }

 private:
  // Reads the next block that may hold events of [begin, end); those before it are skipped unread.
  bool ReadBlock(std::int64_t begin_ps, std::int64_t end_ps) {
    const auto first = blocks_.begin() + static_cast<std::ptrdiff_t>(next_);
    // The block before the first one that begins in the interval may hold events on both sides.
    auto block =
        std::lower_bound(first, blocks_.end(), begin_ps,
                         [](const index::Block& b, std::int64_t at) { return b.begin_ps < at; });
    if (block != first) --block;
    if (block == blocks_.end() || block->begin_ps >= end_ps) return false;
    next_ = static_cast<std::size_t>(block - blocks_.begin()) + 1;
    entries_.clear();
    at_ = 0;
    index_.ForEachEntry(*block, [&](const Entry& entry) { entries_.push_back(entry); });
    return !entries_.empty();
  }

  const Index& index_;
  const std::span<const index::Block> blocks_;
  std::size_t next_ = 0;          // The block to be read next.
  std::vector<Entry> entries_{};  // Entries of the block before it.
  std::size_t at_ = 0;            // How many of these are behind us.
};

// A row's tracks by lane and depth.
using RowTracks = std::map<std::pair<std::uint32_t, std::uint32_t>, const Track*>;

RowTracks TracksByPlace(const Index& index, const index::Row& row) {
  RowTracks tracks;
  for (const Track& track : index.tracks().subspan(row.first_track, row.tracks))
    tracks.emplace(std::pair(track.lane, track.depth), &track);
  return tracks;
}

// The blocks of the track that holds the events directly inside of this track's; none when there is
// no such track.
std::span<const index::Block> BlocksInside(const Index& index, const RowTracks& tracks,
                                           const Track& track) {
  const auto found = tracks.find({track.lane, track.depth + 1});
  return found == tracks.end() ? std::span<const index::Block>() : index.blocks(*found->second);
}

// Tells the self times of a track's events, which are added in the order of their begins. Holds one
// event at a time: the events inside of it are its own up to where the next one begins.
class SelfTimes {
 public:
  using Visit = std::function<void(const Entry&, std::int64_t self_ps)>;

  SelfTimes(const Index& index, const RowTracks& tracks, const Track& track, Visit visit)
      : visit_(std::move(visit)), inside_(index, BlocksInside(index, tracks, track)) {}

  void Add(const Entry& entry) {
    Tell(entry.begin_ps);
    last_ = entry;
    any_ = true;
  }
  // Tells the last event. To be called once, at the end.
  void Finish() { Tell(std::numeric_limits<std::int64_t>::max()); }

 private:
  void Tell(std::int64_t next_begin_ps) {
    if (!any_) return;
    const std::int64_t end = last_.end_ps();
    std::int64_t self_ps = last_.duration_ps;
    while (const Entry* child = inside_.Next(last_.begin_ps, std::min(end, next_begin_ps)))
      if (child->end_ps() <= end) self_ps -= child->duration_ps;
    visit_(last_, std::max<std::int64_t>(self_ps, 0));
  }

  const Visit visit_;
  EntryReader inside_;
  Entry last_{};
  bool any_ = false;
};

WantedTracks Collect(const LoadedRun& run, const std::vector<SelectedBox>& boxes,
                     const std::vector<SelectedEvent>& events) {
  WantedTracks wanted;
  for (const SelectedBox& box : boxes) {
    if (box.row >= run.rows.size()) continue;
    const std::uint32_t tracks = run.RowOf(run.rows[box.row]).tracks;
    for (std::uint32_t track = box.first; track <= box.last && track < tracks; ++track)
      wanted[{box.row, track}].times.emplace_back(box.begin_ps, box.end_ps);
  }
  for (const SelectedEvent& event : events) {
    if (event.row < run.rows.size() && event.track < run.RowOf(run.rows[event.row]).tracks)
      wanted[{event.row, event.track}].ordinals.push_back(event.ordinal);
  }
  return wanted;
}

// Sorts intervals, and joins those that overlap or touch.
template <typename T>
void JoinIntervals(std::vector<std::pair<T, T>>& intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::size_t joined = 0;
  for (std::size_t i = 1; i < intervals.size(); ++i) {
    if (intervals[i].first <= intervals[joined].second)
      intervals[joined].second = std::max(intervals[joined].second, intervals[i].second);
    else
      intervals[++joined] = intervals[i];
  }
  if (!intervals.empty()) intervals.resize(joined + 1);
}

// Calls `visit(const Entry&)` for the wanted events of a track, each once, in the order of their
// begins. None is kept: a box may hold all events of a run.
template <typename Visit>
void ForEachWanted(const Index& index, const Track& track, Wanted wanted, std::int64_t shift_ps,
                   const Visit& visit) {
  for (auto& [begin_ps, end_ps] : wanted.times) begin_ps -= shift_ps, end_ps -= shift_ps;
  JoinIntervals(wanted.times);
  std::sort(wanted.ordinals.begin(), wanted.ordinals.end());
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;  // Ordinals of what is to be read.
  for (const auto& [begin_ps, end_ps] : wanted.times)
    places.emplace_back(index.FirstReaching(track, begin_ps), index.FirstFrom(track, end_ps));
  for (const std::uint64_t ordinal : wanted.ordinals) places.emplace_back(ordinal, ordinal + 1);
  JoinIntervals(places);
  auto time = wanted.times.begin();
  auto single = wanted.ordinals.begin();
  for (const auto& [first, last] : places) {
    index.ForEachEntry(track, first, last, [&](std::uint64_t ordinal, const Entry& entry) {
      // Neither a piece that ends before this event begins nor an ordinal before its own can be
      // meant by a later event.
      while (time != wanted.times.end() && time->second <= entry.begin_ps) ++time;
      while (single != wanted.ordinals.end() && *single < ordinal) ++single;
      const bool in_box = time != wanted.times.end() &&
                          (entry.begin_ps >= time->first || entry.end_ps() > time->first);
      if (in_box || (single != wanted.ordinals.end() && *single == ordinal)) visit(entry);
    });
  }
}

}  // namespace

std::int64_t SelfTime(const Index& index, std::uint32_t track, const Entry& entry) {
  std::int64_t self = 0;
  const Track& its = index.tracks()[track];
  SelfTimes times(index, TracksByPlace(index, index.rows()[its.row]), its,
                  [&](const Entry&, std::int64_t self_ps) { self = self_ps; });
  times.Add(entry);
  times.Finish();
  return self;
}

Selection SumSelection(const LoadedRun& run, const std::vector<SelectedBox>& boxes,
                       const std::vector<SelectedEvent>& events,
                       const std::function<bool()>& is_gone) {
  Selection selection;
  std::vector<std::unordered_map<std::string_view, NameSum>> sums(run.workers.size());
  selection.begin_ps = std::numeric_limits<std::int64_t>::max();
  selection.end_ps = std::numeric_limits<std::int64_t>::min();
  RowTracks tracks;
  const RowRef* tracks_of = nullptr;
  for (const auto& [place, wanted] : Collect(run, boxes, events)) {
    if (is_gone && is_gone()) break;
    const RowRef& ref = run.rows[place.first];
    const std::int64_t shift_ps = run.WorkerOf(ref).shift_ps;
    const Index& index = run.WorkerOf(ref).index();
    if (tracks_of != &ref) tracks = TracksByPlace(index, run.RowOf(ref));
    tracks_of = &ref;
    const Track& track = index.tracks()[run.RowOf(ref).first_track + place.second];
    SelfTimes times(index, tracks, track, [&](const Entry& entry, std::int64_t self_ps) {
      NameSum& sum = sums[ref.worker][index.Text(entry.name)];
      ++sum.count;
      sum.wall_ps += entry.duration_ps;
      sum.self_ps += self_ps;
      selection.begin_ps = std::min(selection.begin_ps, entry.begin_ps + shift_ps);
      selection.end_ps = std::max(selection.end_ps, entry.end_ps() + shift_ps);
      ++selection.count;
    });
    ForEachWanted(index, track, wanted, shift_ps, [&](const Entry& entry) { times.Add(entry); });
    times.Finish();
  }
  if (selection.count == 0) selection.begin_ps = selection.end_ps = 0;
  for (std::uint32_t worker = 0; worker < sums.size(); ++worker) {
    for (auto& [name, sum] : sums[worker]) {
      sum.worker = worker;
      sum.name = name;
      selection.names.push_back(sum);
    }
  }
  std::sort(selection.names.begin(), selection.names.end(), [](const NameSum& a, const NameSum& b) {
    if (a.self_ps != b.self_ps) return a.self_ps > b.self_ps;
    return a.name != b.name ? a.name < b.name : a.worker < b.worker;
  });
  return selection;
}

}  // namespace strobe::viewer
