#include "viewer/find.h"

#include <re2/re2.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "common/base/mutex.h"
#include "common/base/parallel.h"
#include "common/base/strings.h"

namespace strobe::viewer {
namespace {

using index::Block;
using index::Entry;
using index::Index;
using index::Track;

// The names of one worker that match.
struct Names {
  std::vector<bool> matches{};  // By the id of the name.
  std::uint64_t mask = 0;       // The same as a Bloom filter, comparable with Block::names.

  bool Has(std::uint32_t name) const { return name < matches.size() && matches[name]; }
};

// Visits the matching events of one track from `from_ps` on, until `visit` returns false. Blocks
// whose filter says that they hold no matching name are not decoded.
template <typename Visit>
void Walk(const Index& index, const Track& track, const Names& names, std::int64_t from_ps,
          bool backwards, const Visit& visit) {
  const std::span<const Block> blocks = index.blocks(track);
  const std::uint64_t first = index.FirstFrom(track, from_ps);
  std::vector<std::pair<Entry, std::uint32_t>> here;
  const auto walk_block = [&](std::uint64_t number) {
    here.clear();
    auto ordinal = static_cast<std::uint32_t>(number * index::kBlockEvents);
    index.ForEachEntry(blocks[number], [&](const Entry& entry) {
      const bool inside = backwards ? ordinal < first : ordinal >= first;
      if (inside && names.Has(entry.name)) here.emplace_back(entry, ordinal);
      ++ordinal;
    });
    if (backwards) std::reverse(here.begin(), here.end());
    for (const auto& [entry, number_here] : here) {
      if (!visit(entry, number_here)) return false;
    }
    return true;
  };
  if (backwards) {
    for (std::uint64_t n = std::min<std::uint64_t>(first / index::kBlockEvents + 1, blocks.size());
         n-- > 0;) {
      if ((blocks[n].names & names.mask) != 0 && !walk_block(n)) return;
    }
  } else {
    for (std::uint64_t n = first / index::kBlockEvents; n < blocks.size(); ++n) {
      if ((blocks[n].names & names.mask) != 0 && !walk_block(n)) return;
    }
  }
}

}  // namespace

absl::StatusOr<Found> FindEvents(const LoadedRun& run, const FindRequest& request) {
  constexpr int kMaxPatternBytes = 8 << 20;
  re2::RE2::Options options;
  options.set_literal(!request.regex);
  options.set_case_sensitive(request.match_case);
  options.set_log_errors(false);
  options.set_max_mem(kMaxPatternBytes);
  const re2::RE2 pattern(request.text, options);
  if (!pattern.ok())
    return absl::InvalidArgumentError(StrCat("\"", request.text.substr(0, 100),
                                             "\" is no regular expression: ", pattern.error()));
  Found found;
  std::vector<Names> names(run.workers.size());
  std::unordered_map<std::string_view, std::uint64_t> counts;
  for (std::size_t w = 0; w < run.workers.size(); ++w) {
    const Index& index = run.workers[w].index();
    names[w].matches.resize(index.texts());
    for (std::uint32_t id = 0; id < index.texts(); ++id) {
      const std::uint64_t count = index.TextCount(id);
      const std::string_view text = index.Text(id);
      if (count == 0 || !re2::RE2::PartialMatch({text.data(), text.size()}, pattern)) continue;
      names[w].matches[id] = true;
      names[w].mask |= std::uint64_t{1} << id % 64;
      counts[text] += count;
      found.total += count;
    }
  }
  for (const auto& [text, count] : counts) found.names.push_back(text);
  std::sort(found.names.begin(), found.names.end(), [&](auto& a, auto& b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
  });

  struct Place {
    std::uint32_t row, track;
  };
  std::vector<Place> places;
  for (std::uint32_t row = 0; row < run.rows.size(); ++row) {
    if (names[run.rows[row].worker].mask == 0) continue;
    if (!request.rows.empty() &&
        std::find(request.rows.begin(), request.rows.end(), row) == request.rows.end())
      continue;
    for (std::uint32_t t = 0; t < run.RowOf(run.rows[row]).tracks; ++t) places.push_back({row, t});
  }
  // Once one track has found `limit` hits, no other track needs to look beyond the last of them.
  // Times are negated when searching backwards, so that less always means sooner found.
  const auto key = [&](std::int64_t begin) { return request.backwards ? -begin : begin; };
  std::atomic<std::int64_t> bound{std::numeric_limits<std::int64_t>::max()};
  Mutex mutex;
  ParallelFor(places.size(), 2, [&](std::size_t i) {
    const RowRef& ref = run.rows[places[i].row];
    const Worker& worker = run.WorkerOf(ref);
    const Track& track = worker.index().tracks()[run.RowOf(ref).first_track + places[i].track];
    std::vector<Hit> hits;
    Walk(worker.index(), track, names[ref.worker], request.from_ps - worker.shift_ps,
         request.backwards, [&](const Entry& entry, std::uint32_t ordinal) {
           const std::int64_t begin = entry.begin_ps + worker.shift_ps;
           if (hits.size() >= request.limit || key(begin) > bound) return false;
           hits.push_back({places[i].row, places[i].track, ordinal, begin, entry.duration_ps,
                           worker.index().Text(entry.name)});
           return true;
         });
    if (hits.empty()) return;
    if (hits.size() >= request.limit) {
      std::int64_t known = bound;
      const std::int64_t last = key(hits.back().begin_ps);
      while (last < known && !bound.compare_exchange_weak(known, last)) {
      }
    }
    MutexLock lock(&mutex);
    found.hits.insert(found.hits.end(), hits.begin(), hits.end());
  });
  std::sort(found.hits.begin(), found.hits.end(), [&](const Hit& a, const Hit& b) {
    return std::tuple(key(a.begin_ps), a.row, a.track, a.ordinal) <
           std::tuple(key(b.begin_ps), b.row, b.track, b.ordinal);
  });
  if (found.hits.size() > request.limit) found.hits.resize(request.limit);
  return found;
}

}  // namespace strobe::viewer
