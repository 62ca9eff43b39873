#include "viewer/api/request_cost.h"

#include <algorithm>

#include "viewer/api/run_api.h"

namespace strobe::viewer {
namespace {

using index::Track;

// A row whose run is not known is taken to have so many tracks, and no end of events.
constexpr std::uint64_t kTracks = 8;

std::uint64_t Number(const http::Query& query, const char* name, std::int64_t fallback) {
  const absl::StatusOr<std::int64_t> number =
      query.Integer(name, fallback, 0, std::numeric_limits<std::int64_t>::max() / 2);
  return number.ok() ? static_cast<std::uint64_t>(*number) : 0;  // The answer refuses it.
}

template <typename Visit>
void ForEachTrack(const LoadedRun& run, std::uint32_t row, const Visit& visit) {
  const RowRef& ref = run.rows[row];
  const index::Row& here = run.RowOf(ref);
  const auto tracks = run.WorkerOf(ref).index().tracks().subspan(here.first_track, here.tracks);
  for (const Track& track : tracks) visit(track);
}

// The rows that the query names; all rows of the run if it names none.
std::vector<std::uint32_t> RowsOf(const http::Query& query, const LoadedRun& run) {
  std::vector<std::uint32_t> rows;
  if (query.Has("rows")) {
    rows = ReadRows(query).value_or(std::vector<std::uint32_t>{});
    std::erase_if(rows, [&](std::uint32_t row) { return row >= run.rows.size(); });
    return rows;
  }
  for (std::uint32_t row = 0; row < run.rows.size(); ++row) rows.push_back(row);
  return rows;
}

// A damaged index may hold any numbers, whose sum must not overflow.
std::uint64_t Bounded(std::uint64_t count) { return std::min(count, std::uint64_t{1} << 32); }

// What is read to tell the items of a window.
std::uint64_t TilesCost(const http::Query& query, const LoadedRun* run) {
  const std::uint64_t slots = Number(query, "slots", 512);
  if (run == nullptr)
    return ReadRows(query).value_or(std::vector<std::uint32_t>{}).size() * kTracks * slots;
  std::uint64_t cost = 0;
  for (const std::uint32_t row : RowsOf(query, *run)) {
    ForEachTrack(*run, row, [&](const Track& track) {
      // Events that overlap may reach into the window from anywhere.
      cost += Bounded(track.overlapping != 0 ? track.events : std::min(slots, track.events));
    });
  }
  return cost;
}

// All texts are compared. A block of events is skipped if none of them has the name; each track
// may find as many events as are wanted.
std::uint64_t SearchCost(const http::Query& query, const LoadedRun& run, bool reads_events) {
  constexpr std::uint64_t kTextCost = 4, kRegexCost = 40;
  const std::uint64_t limit = Number(query, "limit", 100);
  std::uint64_t texts = 0, cost = 0;
  reads_events |= query.Text("order") == "duration" || Number(query, "slots", 0) > 0;
  for (const Worker& worker : run.workers) texts += worker.index().texts();
  for (const std::uint32_t row : RowsOf(query, run)) {
    ForEachTrack(run, row, [&](const Track& track) {
      cost += Bounded(track.blocks) +
              Bounded(reads_events ? track.events : std::min(limit, track.events));
    });
  }
  return cost + texts * (query.Text("regex") == "1" ? kRegexCost : kTextCost);
}

// Links of the events in the window. Each end may be a block to decode.
std::uint64_t ArrowsCost(const http::Query& query, const LoadedRun& run) {
  std::uint64_t blocks = 0;
  for (const std::uint32_t row : RowsOf(query, run))
    ForEachTrack(run, row,
                 [&](const Track& track) { blocks += Bounded(track.outs) + Bounded(track.ins); });
  return blocks * index::kBlockEvents * 2;
}

std::uint64_t ActivityCost(const http::Query& query, const LoadedRun& run) {
  const std::uint64_t slots = Number(query, "slots", 512);
  std::uint64_t cost = 0;
  for (std::uint32_t row = 0; row < run.rows.size(); ++row) {
    cost += slots;
    ForEachTrack(run, row, [&](const Track& track) {
      if (track.depth == 0) cost += Bounded(std::min(slots, track.events));
    });
  }
  return cost;
}

// The events inside of the event are read, for its own time.
std::uint64_t EventCost(const http::Query& query, const LoadedRun& run) {
  const std::uint64_t row = Number(query, "row", 0);
  return row < run.rows.size() ? run.RowOf(run.rows[row]).events / 4 : 0;
}

// Each name is compared with some dozen others.
std::uint64_t KindsCost(const LoadedRun& run) {
  constexpr std::uint64_t kNameCost = 40;
  std::uint64_t cost = 0;
  for (const Worker& worker : run.workers) cost += worker.index().texts() * kNameCost;
  return cost;
}

}  // namespace

std::uint64_t CostOf(std::string_view path, const http::Query& query, const LoadedRun* run) {
  if (path == "/api/tiles") return TilesCost(query, run);
  if (run == nullptr) return kUnboundedCost;
  if (path == "/api/activity") return ActivityCost(query, *run);
  if (path == "/api/arrows") return ArrowsCost(query, *run);
  if (path == "/api/event") return EventCost(query, *run);
  if (path == "/api/events") return SearchCost(query, *run, /*reads_events=*/false);
  if (path == "/api/kinds") return KindsCost(*run);
  if (path == "/api/find" && query.Text("in") != "all")
    return SearchCost(query, *run, query.Text("in") == "texts");
  // The others read whole traces: their arguments, graphs or steps, or any number of events.
  return kUnboundedCost;
}

}  // namespace strobe::viewer
