#include "viewer/arrows.h"

#include <algorithm>

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

struct Range {
  std::uint32_t worker, track;
  std::uint64_t from, to;  // Ordinals of the events that touch the window, [from, to).
};

}  // namespace

EventRef ReferTo(const LoadedRun& run, std::uint32_t worker_number, std::uint32_t track_number,
                 std::uint32_t ordinal) {
  const Worker& worker = run.workers[worker_number];
  const Index& index = worker.index();
  const Track& track = index.tracks()[track_number];
  const index::Entry entry = index.EntryAt(track, ordinal).value_or(index::Entry{});
  return {run.NumberOf(worker_number, track.row),
          track_number - index.rows()[track.row].first_track,
          ordinal,
          entry.begin_ps + worker.shift_ps,
          entry.duration_ps,
          index.Text(entry.name)};
}

Arrows FindArrows(const LoadedRun& run, const ArrowRequest& request) {
  std::vector<Range> ranges;
  // By worker and track: its place in `ranges`, counted from 1; 0 = not asked for.
  std::vector<std::vector<std::size_t>> place(run.workers.size());
  for (const std::uint32_t number : request.rows) {
    if (number >= run.rows.size()) continue;
    const RowRef& ref = run.rows[number];
    const Worker& worker = run.WorkerOf(ref);
    place[ref.worker].resize(worker.index().tracks().size());
    const index::Row& row = run.RowOf(ref);
    for (std::uint32_t t = row.first_track; t < row.first_track + row.tracks; ++t) {
      const Track& track = worker.index().tracks()[t];
      ranges.push_back({ref.worker, t,
                        worker.index().FirstReaching(track, request.begin_ps - worker.shift_ps),
                        worker.index().FirstFrom(track, request.end_ps - worker.shift_ps)});
      place[ref.worker][t] = ranges.size();
    }
  }
  const auto for_each = [&](const auto& visit) {
    for (const Range& range : ranges) {
      const Index& index = run.workers[range.worker].index();
      for (const bool incoming : {false, true}) {
        index.ForEachLink(index.tracks()[range.track], incoming, range.from, range.to,
                          [&](const LinkTarget& link) {
                            // If both ends are in the window, the arrow was visited already
                            // from its begin.
                            const std::size_t other = place[range.worker][link.track];
                            if (incoming && other != 0 && link.other >= ranges[other - 1].from &&
                                link.other < ranges[other - 1].to)
                              return;
                            visit(range, link, incoming);
                          });
      }
    }
  };
  Arrows found;
  for_each([&](const Range&, const LinkTarget&, bool) { ++found.total; });
  const std::uint64_t stride = found.total / std::max(request.limit, 1u) + 1;
  std::uint64_t number = 0;
  for_each([&](const Range& range, const LinkTarget& link, bool incoming) {
    if (number++ % stride == 0)
      found.arrows.push_back(ArrowFrom(run, range.worker, range.track, link, incoming));
  });
  return found;
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

}  // namespace strobe::viewer
