#include "viewer/answers/arrows.h"

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

}  // namespace strobe::viewer
