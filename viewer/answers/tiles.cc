#include "viewer/answers/tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <unordered_map>

#include "collector/trace/index/window.h"
#include "collector/trace/xplane/varint.h"
#include "collector/trace/xplane/wire.h"
#include "common/base/parallel.h"

namespace strobe::viewer {
namespace {

using wire::AppendVarint;
using wire::ZigZag;

constexpr std::uint32_t kUnitBits = 6;  // A slot has 2^6 units.
// The items of so many tracks are in memory at a time. What is written of them is much smaller.
constexpr std::size_t kTracksAtOnce = 32;
constexpr std::size_t kMaxTilesBytes = std::size_t{64} << 20;

// What is told of one track. The columns of all tracks are joined when they are written.
struct TrackItems {
  std::uint32_t row = 0, track = 0;  // As the page counts them.
  const index::Index* index = nullptr;
  const index::Track* source = nullptr;
  bool counter = false;
  index::Window window{};
  std::int64_t phase = 0;
  std::vector<index::Item> items{};
  std::vector<index::Sample> samples{};
};

// The tracks of the request's rows, without their items.
std::vector<TrackItems> TracksOf(const LoadedRun& run, const TileRequest& request) {
  const std::uint32_t unit = request.level > kUnitBits ? request.level - kUnitBits : 0;
  const std::int64_t end_ps =
      request.begin_ps + (static_cast<std::int64_t>(request.slots) << request.level);
  std::vector<TrackItems> all;
  for (const std::uint32_t number : request.rows) {
    if (number >= run.rows.size()) continue;
    const Worker& worker = run.WorkerOf(run.rows[number]);
    const index::Row& row = run.RowOf(run.rows[number]);
    // All slots of the worker's clock that the window touches, also those that it cuts on both
    // ends.
    const auto slot = [&](std::int64_t at) { return (at - worker.shift_ps) >> request.level; };
    const index::Window window{slot(request.begin_ps) << request.level,
                               (slot(end_ps - 1) + 1) << request.level, request.level};
    for (std::uint32_t i = 0; i < row.tracks; ++i) {
      all.push_back({.row = number,
                     .track = i,
                     .index = &worker.index(),
                     .source = &worker.index().tracks()[row.first_track + i],
                     .counter = row.kind == index::RowKind::kCounter,
                     .window = window,
                     .phase = (window.begin_ps + worker.shift_ps - request.begin_ps) >> unit});
    }
  }
  return all;
}

void LookAt(std::span<TrackItems> tracks) {
  ParallelFor(tracks.size(), 2, [&](std::size_t i) {
    TrackItems& track = tracks[i];
    if (track.counter)
      track.samples = LookAtValues(*track.index, *track.source, track.window);
    else
      track.items = Look(*track.index, *track.source, track.window);
  });
}

}  // namespace

absl::StatusOr<std::string> EncodeTiles(const LoadedRun& run, const TileRequest& request,
                                        const std::function<bool()>& is_gone) {
  std::vector<TrackItems> all = TracksOf(run, request);
  const std::uint32_t unit = request.level > kUnitBits ? request.level - kUnitBits : 0;
  std::string begins, lengths, names, counts, busy, times, values;
  std::unordered_map<std::string_view, std::uint32_t> text_ids;
  std::vector<std::string_view> texts;
  std::string head;
  AppendVarint(1, head);
  AppendVarint(all.size(), head);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % kTracksAtOnce == 0) {
      if (is_gone && is_gone()) return absl::CancelledError("nobody waits for the tiles any more");
      LookAt(std::span(all).subspan(i, std::min(kTracksAtOnce, all.size() - i)));
    }
    TrackItems& track = all[i];
    AppendVarint(track.row, head);
    AppendVarint(track.track, head);
    AppendVarint(track.counter ? 1 : 0, head);
    AppendVarint(track.counter ? track.samples.size() : track.items.size(), head);
    AppendVarint(ZigZag(track.phase), head);
    const auto at = [&](std::int64_t ps) {
      return (std::clamp(ps, track.window.begin_ps, track.window.end_ps) - track.window.begin_ps) >>
             unit;
    };
    std::int64_t before = 0;
    for (const index::Item& item : track.items) {
      const std::int64_t begin = at(item.begin_ps), end = at(item.end_ps);
      const bool from_before = item.begin_ps < track.window.begin_ps;
      const bool goes_on = item.end_ps > track.window.end_ps;
      AppendVarint(ZigZag(begin - before), begins);
      before = begin;
      AppendVarint(
          static_cast<std::uint64_t>(end - begin) * 4 + (from_before ? 1 : 0) + (goes_on ? 2 : 0),
          lengths);
      const std::string_view name = track.index->Text(item.name);
      const auto [text, added] =
          text_ids.try_emplace(name, static_cast<std::uint32_t>(texts.size()));
      if (added) texts.push_back(name);
      AppendVarint(text->second, names);
      AppendVarint(item.count, counts);
      // The page draws few heights, and sixteen values compress better than 256.
      busy.push_back(static_cast<char>(std::lround(item.busy * 15) * 17));
    }
    before = 0;
    for (const index::Sample& sample : track.samples) {
      const std::int64_t when = at(sample.at_ps);
      AppendVarint(ZigZag(when - before), times);
      before = when;
      for (const double value : {sample.least, sample.most, sample.last}) {
        char bytes[sizeof value];
        std::memcpy(bytes, &value, sizeof value);
        values.append(bytes, sizeof bytes);
      }
    }
    track.items = {};
    track.samples = {};
    if (begins.size() + lengths.size() + names.size() + counts.size() + busy.size() + times.size() +
            values.size() >
        kMaxTilesBytes)
      return absl::InvalidArgumentError(
          "the window has too many items; ask for fewer rows or slots");
  }
  AppendVarint(texts.size(), head);
  for (const std::string_view text : texts) {
    AppendVarint(text.size(), head);
    head += text;
  }
  // Exactly, because a string that grows by and by would take twice as much.
  head.reserve(head.size() + begins.size() + lengths.size() + names.size() + counts.size() +
               busy.size() + times.size() + values.size());
  for (std::string* column : {&begins, &lengths, &names, &counts, &busy, &times, &values}) {
    head += *column;
    *column = {};
  }
  return head;
}

}  // namespace strobe::viewer
