#include "viewer/selection.h"

#include <algorithm>
#include <limits>
#include <map>
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

// By row and track.
using WantedTracks = std::map<std::pair<std::uint32_t, std::uint32_t>, Wanted>;

// Calls `visit(std::uint64_t ordinal, const Entry&)` for the events that touch [begin, end).
template <typename Visit>
void ForEachIn(const Index& index, const Track& track, std::int64_t begin_ps, std::int64_t end_ps,
               const Visit& visit) {
  index.ForEachEntry(track, index.FirstReaching(track, begin_ps), index.FirstFrom(track, end_ps),
                     [&](std::uint64_t ordinal, const Entry& entry) {
                       if (entry.begin_ps >= begin_ps || entry.end_ps() > begin_ps)
                         visit(ordinal, entry);
                     });
}

std::vector<Entry> EntriesIn(const Index& index, const Track& track, std::int64_t begin_ps,
                             std::int64_t end_ps) {
  std::vector<Entry> entries;
  ForEachIn(index, track, begin_ps, end_ps,
            [&](std::uint64_t, const Entry& entry) { entries.push_back(entry); });
  return entries;
}

// The track that holds the events directly inside of this track's; nullptr when there is none.
const Track* Inner(const Index& index, const Track& track) {
  const index::Row& row = index.rows()[track.row];
  for (std::uint32_t i = 0; i < row.tracks; ++i) {
    const Track& other = index.tracks()[row.first_track + i];
    if (other.lane == track.lane && other.depth == track.depth + 1) return &other;
  }
  return nullptr;
}

// Self time of each of the entries, which lie on `track` in the order of their begins.
std::vector<std::int64_t> SelfTimes(const Index& index, const Track& track,
                                    const std::vector<Entry>& entries) {
  std::vector<std::int64_t> self;
  self.reserve(entries.size());
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  for (const Entry& entry : entries) {
    self.push_back(entry.duration_ps);
    end = std::max(end, entry.end_ps());
  }
  const Track* inner = entries.empty() ? nullptr : Inner(index, track);
  if (inner == nullptr) return self;
  std::size_t parent = 0;
  for (const Entry& child : EntriesIn(index, *inner, entries.front().begin_ps, end)) {
    while (parent + 1 < entries.size() && entries[parent + 1].begin_ps <= child.begin_ps) ++parent;
    if (child.begin_ps >= entries[parent].begin_ps && child.end_ps() <= entries[parent].end_ps())
      self[parent] -= child.duration_ps;
  }
  for (std::int64_t& time : self) time = std::max<std::int64_t>(time, 0);
  return self;
}

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

// The wanted events of a track, each once, in the order of their begins.
std::vector<Entry> EntriesOf(const Index& index, const Track& track, const Wanted& wanted,
                             std::int64_t shift_ps) {
  if (wanted.times.size() == 1 && wanted.ordinals.empty())
    return EntriesIn(index, track, wanted.times[0].first - shift_ps,
                     wanted.times[0].second - shift_ps);
  std::map<std::uint64_t, Entry> found;  // By ordinal.
  for (const auto& [begin_ps, end_ps] : wanted.times) {
    ForEachIn(index, track, begin_ps - shift_ps, end_ps - shift_ps,
              [&](std::uint64_t ordinal, const Entry& entry) { found.emplace(ordinal, entry); });
  }
  for (const std::uint32_t ordinal : wanted.ordinals)
    if (const auto entry = index.EntryAt(track, ordinal)) found.emplace(ordinal, *entry);
  std::vector<Entry> entries;
  entries.reserve(found.size());
  for (const auto& [ordinal, entry] : found) entries.push_back(entry);
  return entries;
}

}  // namespace

std::int64_t SelfTime(const Index& index, std::uint32_t track, const Entry& entry) {
  return SelfTimes(index, index.tracks()[track], {entry}).front();
}

Selection SumSelection(const LoadedRun& run, const std::vector<SelectedBox>& boxes,
                       const std::vector<SelectedEvent>& events) {
  Selection selection;
  std::unordered_map<std::string_view, NameSum> sums;
  selection.begin_ps = std::numeric_limits<std::int64_t>::max();
  selection.end_ps = std::numeric_limits<std::int64_t>::min();
  for (const auto& [place, wanted] : Collect(run, boxes, events)) {
    const RowRef& ref = run.rows[place.first];
    const std::int64_t shift_ps = run.WorkerOf(ref).shift_ps;
    const Index& index = run.WorkerOf(ref).index();
    const Track& track = index.tracks()[run.RowOf(ref).first_track + place.second];
    const std::vector<Entry> entries = EntriesOf(index, track, wanted, shift_ps);
    const std::vector<std::int64_t> self = SelfTimes(index, track, entries);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      NameSum& sum = sums[index.Text(entries[i].name)];
      ++sum.count;
      sum.wall_ps += entries[i].duration_ps;
      sum.self_ps += self[i];
      selection.begin_ps = std::min(selection.begin_ps, entries[i].begin_ps + shift_ps);
      selection.end_ps = std::max(selection.end_ps, entries[i].end_ps() + shift_ps);
    }
    selection.count += entries.size();
  }
  if (selection.count == 0) selection.begin_ps = selection.end_ps = 0;
  for (auto& [name, sum] : sums) {
    sum.name = name;
    selection.names.push_back(sum);
  }
  std::sort(selection.names.begin(), selection.names.end(), [](const NameSum& a, const NameSum& b) {
    return a.self_ps != b.self_ps ? a.self_ps > b.self_ps : a.name < b.name;
  });
  return selection;
}

}  // namespace strobe::viewer
