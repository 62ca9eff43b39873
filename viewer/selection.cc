#include "viewer/selection.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace strobe::viewer {
namespace {

using index::Entry;
using index::Index;
using index::Track;

// Events that touch [begin, end).
std::vector<Entry> EntriesIn(const Index& index, const Track& track, std::int64_t begin_ps,
                             std::int64_t end_ps) {
  std::vector<Entry> entries;
  index.ForEachEntry(track, index.FirstReaching(track, begin_ps), index.FirstFrom(track, end_ps),
                     [&](std::uint64_t, const Entry& entry) {
                       if (entry.begin_ps >= begin_ps || entry.end_ps() > begin_ps)
                         entries.push_back(entry);
                     });
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

}  // namespace

std::int64_t SelfTime(const Index& index, std::uint32_t track, const Entry& entry) {
  return SelfTimes(index, index.tracks()[track], {entry}).front();
}

Selection SumSelection(const LoadedRun& run, const std::vector<TrackRange>& tracks,
                       std::int64_t begin_ps, std::int64_t end_ps) {
  Selection selection;
  std::unordered_map<std::string_view, NameSum> sums;
  selection.begin_ps = std::numeric_limits<std::int64_t>::max();
  selection.end_ps = std::numeric_limits<std::int64_t>::min();
  for (const TrackRange& range : tracks) {
    if (range.row >= run.rows.size()) continue;
    const RowRef& ref = run.rows[range.row];
    const Worker& worker = run.WorkerOf(ref);
    const Index& index = worker.index();
    const index::Row& row = run.RowOf(ref);
    for (std::uint32_t t = range.first; t <= range.last && t < row.tracks; ++t) {
      const Track& track = index.tracks()[row.first_track + t];
      const std::vector<Entry> entries =
          EntriesIn(index, track, begin_ps - worker.shift_ps, end_ps - worker.shift_ps);
      const std::vector<std::int64_t> self = SelfTimes(index, track, entries);
      for (std::size_t i = 0; i < entries.size(); ++i) {
        NameSum& sum = sums[index.Text(entries[i].name)];
        ++sum.count;
        sum.wall_ps += entries[i].duration_ps;
        sum.self_ps += self[i];
        selection.begin_ps = std::min(selection.begin_ps, entries[i].begin_ps + worker.shift_ps);
        selection.end_ps = std::max(selection.end_ps, entries[i].end_ps() + worker.shift_ps);
      }
      selection.count += entries.size();
    }
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
