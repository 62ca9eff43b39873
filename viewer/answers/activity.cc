#include "viewer/answers/activity.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "collector/trace/index/window.h"
#include "common/base/parallel.h"

namespace strobe::viewer {
namespace {

// The rows [first, last) of one plane, or of one pool of threads, of one worker, as the run orders
// them. The page has the same sections.
struct Section {
  std::uint32_t first = 0, last = 0;
};

bool InOneSection(const LoadedRun& run, const RowRef& a, const RowRef& b) {
  return a.worker == b.worker && run.RowOf(a).plane == run.RowOf(b).plane && a.pool == b.pool;
}

std::vector<Section> SectionsOf(const LoadedRun& run) {
  std::vector<Section> sections;
  for (std::uint32_t i = 0; i < run.rows.size(); ++i) {
    if (i > 0 && InOneSection(run, run.rows[i - 1], run.rows[i]))
      ++sections.back().last;
    else
      sections.push_back({i, i + 1});
  }
  return sections;
}

// Adds the time that an item fills to each slot that it touches. The first slot begins at
// `begin_ps`.
void AddItem(const index::Item& item, std::int64_t begin_ps, std::uint32_t level,
             std::vector<float>& filled) {
  const auto slot = static_cast<double>(std::int64_t{1} << level);
  const double begin = std::max(0.0, static_cast<double>(item.begin_ps - begin_ps) / slot);
  const double end = std::min(static_cast<double>(filled.size()),
                              static_cast<double>(item.end_ps - begin_ps) / slot);
  auto at = static_cast<std::size_t>(begin);
  if (at >= filled.size()) return;
  // Events of no length leave a trace too.
  filled[at] = std::max(filled[at], 1e-6f);
  for (; static_cast<double>(at) < end; ++at) {
    const double part =
        std::min(end, static_cast<double>(at) + 1) - std::max(begin, static_cast<double>(at));
    filled[at] += static_cast<float>(part) * item.busy;
  }
}

// The share of each slot that a row's outermost events fill. Events inside of them fill no further
// time.
std::vector<float> LookAtRow(const Worker& worker, const index::Row& row, const Activity& activity,
                             std::uint32_t level, std::uint32_t slots) {
  std::vector<float> filled(slots);
  const std::int64_t begin_ps = activity.begin_ps - worker.shift_ps;
  // The index needs whole slots of the worker's own clock: all that the run's slots touch.
  const std::int64_t first = begin_ps >> level, step = std::int64_t{1} << level;
  const std::int64_t last = (begin_ps + step * slots - 1) >> level;
  const index::Window window{first << level, (last + 1) << level, level};
  for (std::uint32_t i = 0; i < row.tracks; ++i) {
    const index::Track& track = worker.index().tracks()[row.first_track + i];
    if (track.depth > 0) continue;
    for (const index::Item& item : Look(worker.index(), track, window))
      AddItem(item, begin_ps, level, filled);
  }
  for (float& share : filled) share = std::min(share, 1.0f);
  return filled;
}

std::vector<std::uint32_t> LookAtBand(const LoadedRun& run, const Section& band,
                                      const Activity& activity, std::uint32_t level,
                                      std::uint32_t slots, const std::function<bool()>& is_gone) {
  std::vector<float> sums(slots);
  std::uint32_t rows = 0;
  for (std::uint32_t i = band.first; i < band.last; ++i) {
    if (is_gone && is_gone()) break;
    const Worker& worker = run.WorkerOf(run.rows[i]);
    const index::Row& row = run.RowOf(run.rows[i]);
    if (row.kind == index::RowKind::kCounter || row.events == 0) continue;
    ++rows;
    const std::vector<float> filled = LookAtRow(worker, row, activity, level, slots);
    std::transform(sums.begin(), sums.end(), filled.begin(), sums.begin(), std::plus<>());
  }
  std::vector<std::uint32_t> shares;
  shares.reserve(slots);
  for (const float sum : sums)
    shares.push_back(sum > 0
                         ? std::max(1u, static_cast<std::uint32_t>(std::lround(
                                            255 * sum / static_cast<float>(std::max(rows, 1u)))))
                         : 0);
  return shares;
}

}  // namespace

Activity ActivityOf(const LoadedRun& run, std::uint32_t slots, std::uint32_t bands,
                    const std::function<bool()>& is_gone) {
  std::uint32_t level = 0;
  // One slot more than the run's length needs, because the first one begins before the run.
  while (((run.end_ps - run.begin_ps) >> level) + 2 > slots && level < 60) ++level;
  Activity activity{.begin_ps = run.begin_ps >> level << level,
                    .slot_ps = std::int64_t{1} << level};
  const std::vector<Section> sections = SectionsOf(run);
  const std::size_t each = (sections.size() + bands - 1) / bands;
  std::vector<Section> groups;
  for (std::size_t i = 0; i < sections.size(); i += each)
    groups.push_back({sections[i].first, sections[std::min(i + each, sections.size()) - 1].last});
  for (const Section& group : groups)
    activity.workers.emplace_back(run.rows[group.first].worker, run.rows[group.last - 1].worker);
  const std::int64_t needed =
      std::max<std::int64_t>(((run.end_ps - activity.begin_ps) >> level) + 1, 1);
  const auto used = static_cast<std::uint32_t>(std::min<std::int64_t>(needed, slots));
  activity.bands.resize(groups.size());
  ParallelFor(groups.size(), 2, [&](std::size_t i) {
    activity.bands[i] = LookAtBand(run, groups[i], activity, level, used, is_gone);
  });
  return activity;
}

}  // namespace strobe::viewer
