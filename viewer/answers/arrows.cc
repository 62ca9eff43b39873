#include "viewer/answers/arrows.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>

namespace strobe::viewer {

namespace {

using index::Index;
using index::LinkTarget;
using index::Track;

Arrow ArrowFrom(const LoadedRun& run, std::uint32_t worker, std::uint32_t track,
                const LinkTarget& link, bool incoming) {
  Arrow arrow{ReferTo(run, worker, track, link.ordinal),
              ReferTo(run, worker, link.track, link.other)};
  if (incoming) std::swap(arrow.from, arrow.to);
  return arrow;
}

}  // namespace

EventRef ReferTo(const LoadedRun& run, std::uint32_t worker_number, std::uint32_t track_number,
                 std::uint32_t ordinal) {
  const Worker& worker = run.workers[worker_number];
  const Index& index = worker.index();
  const Track& track = index.tracks()[track_number];
  const index::Entry entry = index.EntryAt(track, ordinal).value_or(index::Entry{});
  return {.row = run.NumberOf(worker_number, track.row),
          .track = track_number - index.rows()[track.row].first_track,
          .ordinal = ordinal,
          .begin_ps = entry.begin_ps + worker.shift_ps,
          .duration_ps = entry.duration_ps,
          .name = index.Text(entry.name)};
}

std::vector<Arrow> ArrowsOf(const LoadedRun& run, std::uint32_t row, std::uint32_t track,
                            std::uint32_t ordinal, std::size_t limit) {
  std::vector<Arrow> arrows;
  const RowRef& ref = run.rows[row];
  const Index& index = run.WorkerOf(ref).index();
  const std::uint32_t number = run.RowOf(ref).first_track + track;
  for (const bool incoming : {true, false}) {
    index.ForEachLink(index.tracks()[number], incoming, ordinal, std::uint64_t{ordinal} + 1,
                      [&](const LinkTarget& link) {
                        if (arrows.size() < limit)
                          arrows.push_back(ArrowFrom(run, ref.worker, number, link, incoming));
                      });
  }
  return arrows;
}

namespace {

using index::Entry;
using index::Index;
using index::kBlockEvents;
using index::LinkTarget;
using index::Track;

std::int64_t Clamp(std::int64_t ps) { return std::clamp(ps, -kMaxTimePs, kMaxTimePs); }

struct Range {
  std::uint32_t worker, track;
  std::uint64_t from, to;  // Ordinals of the events that touch the window, [from, to).
};

// The events of the window on each of the asked tracks.
class Ranges {
 public:
  Ranges(const LoadedRun& run, const BundleRequest& request)
      : run_(run), is_gone_(request.is_gone), range_of_(run.workers.size()) {
    for (const std::uint32_t number : request.rows) {
      if (number >= run.rows.size()) continue;
      const RowRef& ref = run.rows[number];
      const Worker& worker = run.WorkerOf(ref);
      std::vector<std::uint32_t>& place = range_of_[ref.worker];
      place.resize(worker.index().tracks().size());
      const index::Row& row = run.RowOf(ref);
      for (std::uint32_t t = row.first_track; t < row.first_track + row.tracks; ++t) {
        if (place[t] != 0) continue;  // The row was named twice.
        const Track& track = worker.index().tracks()[t];
        ranges_.push_back({ref.worker, t,
                           FirstTouching(worker.index(), track, request.begin_ps - worker.shift_ps),
                           worker.index().FirstFrom(track, request.end_ps - worker.shift_ps)});
        place[t] = static_cast<std::uint32_t>(ranges_.size());
      }
    }
  }

  // Calls `visit(const Range&, const LinkTarget&, bool incoming)` once for each arrow.
  void ForEachArrow(const std::function<void(const Range&, const LinkTarget&, bool)>& visit) const {
    for (const Range& range : ranges_) {
      if (is_gone_ && is_gone_()) return;
      const Index& index = run_.workers[range.worker].index();
      for (const bool incoming : {false, true}) {
        index.ForEachLink(index.tracks()[range.track], incoming, range.from, range.to,
                          [&](const LinkTarget& link) {
                            // If both ends are in the window, the arrow was visited already
                            // from its begin.
                            if (incoming && Holds(range.worker, link.track, link.other)) return;
                            visit(range, link, incoming);
                          });
      }
    }
  }

 private:
  // The ordinal of the first event that ends after `at_ps` or begins there. On a track with
  // overlapping events it may be that of an earlier one.
  static std::uint64_t FirstTouching(const Index& index, const Track& track, std::int64_t at_ps) {
    const std::uint64_t first = index.FirstReaching(track, at_ps);
    if (track.overlapping != 0) return first;
    const std::optional<Entry> entry = index.EntryAt(track, first);
    return entry && entry->begin_ps < at_ps && entry->end_ps() <= at_ps ? first + 1 : first;
  }

  bool Holds(std::uint32_t worker, std::uint32_t track, std::uint32_t ordinal) const {
    const std::uint32_t place = range_of_[worker][track];
    return place != 0 && ordinal >= ranges_[place - 1].from && ordinal < ranges_[place - 1].to;
  }

  const LoadedRun& run_;
  const std::function<bool()>& is_gone_;
  std::vector<Range> ranges_;
  // The place of each worker's tracks in `ranges_`, counted from 1; 0 = not asked for.
  std::vector<std::vector<std::uint32_t>> range_of_;
};

// Where an arrow's ends lie. Neighbouring arrows end on neighbouring events, so the block that was
// decoded last on each track holds the answer nearly always.
class ArrowEnds {
 public:
  explicit ArrowEnds(const LoadedRun& run) : run_(run), blocks_(run.workers.size()) {
    for (std::size_t w = 0; w < blocks_.size(); ++w)
      blocks_[w].resize(run.workers[w].index().tracks().size());
  }

  // Times are the trace's; an event that the index does not have is at 0.
  Entry At(std::uint32_t worker, std::uint32_t track_number, std::uint32_t ordinal) {
    Decoded& decoded = blocks_[worker][track_number];
    const std::uint64_t block = ordinal / kBlockEvents + 1;
    if (decoded.block != block) {
      const Index& index = run_.workers[worker].index();
      decoded.block = block;
      decoded.entries.clear();
      const auto all = index.blocks(index.tracks()[track_number]);
      if (block <= all.size())
        index.ForEachEntry(all[block - 1],
                           [&](const Entry& entry) { decoded.entries.push_back(entry); });
    }
    const std::size_t number = ordinal % kBlockEvents;
    return number < decoded.entries.size() ? decoded.entries[number] : Entry{};
  }

 private:
  struct Decoded {
    std::uint64_t block = 0;  // Counted from 1.
    std::vector<Entry> entries{};
  };
  const LoadedRun& run_;
  std::vector<std::vector<Decoded>> blocks_;
};

class Bundler {
 public:
  Bundler(const LoadedRun& run, const BundleRequest& request)
      : run_(run), level_(request.level), limit_(std::max(request.limit, 1u)), ends_(run) {}

  void Add(const Range& range, const LinkTarget& link, bool incoming) {
    Bundle::End here = EndOf(range.worker, range.track), there = EndOf(range.worker, link.track);
    const Entry own = ends_.At(range.worker, range.track, link.ordinal);
    const Entry other = ends_.At(range.worker, link.track, link.other);
    const Entry& from = incoming ? other : own;
    const Entry& to = incoming ? own : other;
    const std::int64_t shift = run_.workers[range.worker].shift_ps;
    // An index may hold any times; sums of clamped ones do not overflow.
    const std::int64_t from_ps = Clamp(from.begin_ps), to_ps = Clamp(to.begin_ps);
    const std::int64_t length = std::max<std::int64_t>(Clamp(from.duration_ps), 0);
    const std::int64_t wait = std::clamp<std::int64_t>(to_ps - from_ps, 0, length);
    Bundle bundle{.from = incoming ? there : here, .to = incoming ? here : there, .count = 1};
    bundle.from.at_ps = from_ps + wait + shift;
    bundle.to.at_ps = to_ps + shift;
    ++found_.total;
    Put(bundle);
    while (bundles_.size() > limit_ && Coarsen()) {
    }
  }

  Bundles Take() {
    for (const auto& [key, bundle] : bundles_) {
      found_.drawn += bundle.count;
      found_.bundles.push_back(bundle);
    }
    return std::move(found_);
  }

 private:
  struct Key {
    std::array<std::uint32_t, 4> ends{};  // Row and track of both ends.
    std::array<std::int64_t, 2> cells{};
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      std::uint64_t hash = 0xcbf29ce484222325;
      const auto mix = [&](std::uint64_t value) {
        hash = (hash ^ value) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 29;
      };
      for (const std::uint32_t place : key.ends) mix(place);
      for (const std::int64_t cell : key.cells) mix(static_cast<std::uint64_t>(cell));
      return hash;
    }
  };

  Bundle::End EndOf(std::uint32_t worker, std::uint32_t track) const {
    const Index& index = run_.workers[worker].index();
    const std::uint32_t row = index.tracks()[track].row;
    return {.row = run_.NumberOf(worker, row), .track = track - index.rows()[row].first_track};
  }

  void Put(const Bundle& bundle) {
    Key key{{bundle.from.row, bundle.from.track, bundle.to.row, bundle.to.track},
            {bundle.from.at_ps >> level_, bundle.to.at_ps >> level_}};
    if (rows_only_) key.ends[1] = key.ends[3] = 0;
    if (last_ == nullptr || last_->first != key) {
      if (full_ && !bundles_.contains(key)) return;
      last_ = &*bundles_.try_emplace(key, Bundle{bundle.from, bundle.to, 0}).first;
    }
    last_->second.count += bundle.count;
  }

  // Joins more arrows. False when that would not help any more.
  bool Coarsen() {
    if (level_ < kMaxBundleLevel)
      ++level_;
    else if (!rows_only_)
      rows_only_ = true;
    else
      return Fill();
    const auto finer = std::exchange(bundles_, {});
    last_ = nullptr;
    for (const auto& [key, bundle] : finer) Put(bundle);
    return true;
  }

  // From now on, arrows that are in none of the bundles are only counted.
  bool Fill() {
    full_ = true;
    last_ = nullptr;
    bundles_.erase(bundles_.begin());
    return false;
  }

  const LoadedRun& run_;
  std::uint32_t level_;
  const std::uint32_t limit_;
  bool rows_only_ = false;  // Tracks of a row are not told apart.
  bool full_ = false;       // No further bundle is made.
  ArrowEnds ends_;
  std::unordered_map<Key, Bundle, Hash> bundles_;
  // What was put last: neighbouring arrows often are of the same bundle.
  std::pair<const Key, Bundle>* last_ = nullptr;
  Bundles found_;
};

}  // namespace

Bundles BundleArrows(const LoadedRun& run, const BundleRequest& request) {
  Bundler bundler(run, request);
  Ranges(run, request).ForEachArrow([&](const Range& range, const LinkTarget& link, bool incoming) {
    bundler.Add(range, link, incoming);
  });
  return bundler.Take();
}

}  // namespace strobe::viewer
