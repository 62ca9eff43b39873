#include "viewer/answers/launch_chain.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "collector/trace/digest/device_lines.h"
#include "collector/trace/digest/event_times.h"
#include "collector/trace/tally/host_names.h"
#include "collector/trace/tally/track_reader.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "viewer/answers/event_source.h"

namespace strobe::viewer {
namespace {

using index::Entry;
using index::Index;
using index::Track;

// Nodes of one graph that are looked at to find the place of one among them.
constexpr std::size_t kMaxNodes = 100'000;
// Calls that add a node to a graph while a stream is captured, by parts of their names.
constexpr std::array<std::string_view, 4> kNodeCalls = {"LaunchKernel", "LaunchCooperative",
                                                        "MemcpyAsync", "MemsetAsync"};

bool IsOfDevice(const LoadedRun& run, std::uint32_t row) {
  const Index& index = run.WorkerOf(run.rows[row]).index();
  return digest::IsDevicePlane(index.Text(index.planes()[run.RowOf(run.rows[row]).plane].name));
}

// The event of the host at the other end of an arrow that leads to this one.
std::optional<EventRef> HostEventBefore(const LoadedRun& run, const EventRef& event) {
  constexpr std::size_t kMaxArrowsRead = 64;
  for (const Arrow& arrow : ArrowsOf(run, event.row, event.track, event.ordinal, kMaxArrowsRead)) {
    const EventRef& to = arrow.to;
    const bool incoming =
        to.row == event.row && to.track == event.track && to.ordinal == event.ordinal;
    if (incoming && !IsOfDevice(run, arrow.from.row)) return arrow.from;
  }
  return std::nullopt;
}

// The events around one on its own line, from the innermost outwards. An event that does not nest
// with all others is on another lane.
std::vector<EventRef> EventsAround(const LoadedRun& run, const EventRef& event) {
  const RowRef& ref = run.rows[event.row];
  const Worker& worker = run.WorkerOf(ref);
  const Index& index = worker.index();
  const index::Row& row = run.RowOf(ref);
  const Track& own = index.tracks()[row.first_track + event.track];
  const std::int64_t begin_ps = event.begin_ps - worker.shift_ps;
  std::vector<std::pair<std::uint32_t, EventRef>> by_depth;
  for (std::uint32_t t = 0; t < row.tracks; ++t) {
    const Track& outer = index.tracks()[row.first_track + t];
    if (outer.lane == own.lane && outer.depth >= own.depth) continue;
    const std::uint64_t next = index.FirstFrom(outer, begin_ps + 1);
    if (next == 0 || next - 1 > std::numeric_limits<std::uint32_t>::max()) continue;
    const std::optional<Entry> entry = index.EntryAt(outer, next - 1);
    if (!entry || entry->end_ps() <= begin_ps || entry->end_ps() < begin_ps + event.duration_ps)
      continue;
    by_depth.emplace_back(outer.depth, ReferTo(run, ref.worker, row.first_track + t,
                                               static_cast<std::uint32_t>(next - 1)));
  }
  std::ranges::sort(by_depth, [](const auto& a, const auto& b) {
    const auto& [depth, x] = a;
    const auto& [other_depth, y] = b;
    return std::tuple(y.begin_ps, x.duration_ps, other_depth) <
           std::tuple(x.begin_ps, y.duration_ps, depth);
  });
  std::vector<EventRef> around;
  for (const auto& [depth, one] : by_depth) {
    if (around.size() < LaunchChain::kMaxLinks) around.push_back(one);
  }
  return around;
}

// Adds what is around an event of the host, with what each is.
absl::Status AddAround(const LoadedRun& run, const EventRef& event, std::vector<ChainLink>& links) {
  const RowRef& ref = run.rows[event.row];
  const tally::Source source = TallySourceOf(run.WorkerOf(ref));
  const index::Row& row = run.RowOf(ref);
  for (const EventRef& one : EventsAround(run, event)) {
    const std::optional<Entry> entry =
        source.index->EntryAt(source.index->tracks()[row.first_track + one.track], one.ordinal);
    if (!entry) continue;
    ASSIGN_OR_RETURN(const tally::HostKind kind, tally::ReadHostKind(source, row, *entry));
    links.push_back({tally::HostKindName(kind), one});
  }
  return absl::OkStatus();
}

// The number of the graph's node that some work is; nullopt if the trace does not tell it.
absl::StatusOr<std::optional<std::int64_t>> NodeOf(const LoadedRun& run, const EventRef& work) {
  const RowRef& ref = run.rows[work.row];
  ASSIGN_OR_RETURN(const EventSource source, SourceOf(run, ref));
  const Index& index = run.WorkerOf(ref).index();
  const std::optional<Entry> entry =
      index.EntryAt(index.tracks()[run.RowOf(ref).first_track + work.track], work.ordinal);
  std::optional<std::int64_t> node;
  if (!entry) return node;
  ASSIGN_OR_RETURN(const std::string_view bytes, source.At(entry->offset));
  // As Kineto and as XLA call it.
  const std::int64_t kineto_id = source.plane->StatId("graph node id"),
                     xla_id = source.plane->StatId("cuda_graph_node_id");
  xplane::Event event;
  RETURN_IF_ERROR(digest::ReadEvent(
      bytes, event, [&](std::int64_t id) { return id != 0 && (id == kineto_id || id == xla_id); },
      [&](const digest::RawStat& stat) {
        if (stat.is_integer && stat.value != 0) node = stat.value;
      }));
  return node;
}

// The calls that added nodes to a graph while a stream was captured, by capture and in order.
std::vector<std::vector<EventRef>> Captures(const LoadedRun& run, std::uint32_t worker) {
  std::vector<std::vector<EventRef>> captures;
  const Index& index = run.workers[worker].index();
  for (const index::Row& row : index.rows()) {
    const std::string_view plane = index.Text(index.planes()[row.plane].name);
    if (row.kind == index::RowKind::kCounter || digest::IsDevicePlane(plane)) continue;
    bool captures_now = false;
    std::map<std::uint32_t, std::uint32_t> ordinals;  // How many events of a track were read.
    for (tally::LaneReader reader(index, tally::TracksOf(row), tally::Links::kLeftOut);
         reader.next() != nullptr; reader.Advance()) {
      const std::uint32_t track = reader.next()->track();
      const std::uint32_t ordinal = ordinals[track]++;
      const std::string_view name = index.Text(reader.next()->entry().name);
      if (Contains(name, "StreamBeginCapture")) {
        captures.emplace_back();
        captures_now = true;
      } else if (Contains(name, "StreamEndCapture")) {
        captures_now = false;
      } else if (captures_now && captures.back().size() < kMaxNodes &&
                 std::ranges::any_of(kNodeCalls,
                                     [&](std::string_view call) { return Contains(name, call); })) {
        captures.back().push_back(ReferTo(run, worker, track, ordinal));
      }
    }
  }
  return captures;
}

// Finds the call of the capture that added the node which some work of a graph is. Nodes are
// numbered in the order of the calls, and the graph is the only capture with so many of them.
absl::Status MapNode(const LoadedRun& run, const EventRef& work, const EventRef& launch,
                     LaunchChain& chain) {
  const std::string_view graph = launch.name.starts_with("hip") ? "A HIP graph" : "A CUDA graph";
  ASSIGN_OR_RETURN(const std::optional<std::int64_t> own, NodeOf(run, work));
  if (!own) {
    chain.graph = StrCat(graph,
                         " launched this. The trace does not tell its node in the graph, so that "
                         "its operator is not known.");
    return absl::OkStatus();
  }
  std::set<std::int64_t> nodes;
  for (const Arrow& arrow : ArrowsOf(run, launch.row, launch.track, launch.ordinal, kMaxNodes)) {
    if (!IsOfDevice(run, arrow.to.row)) continue;
    ASSIGN_OR_RETURN(const std::optional<std::int64_t> node, NodeOf(run, arrow.to));
    if (node) nodes.insert(*node);
  }
  const auto number = static_cast<std::size_t>(std::distance(nodes.begin(), nodes.find(*own)));
  std::vector<std::vector<EventRef>> captures = Captures(run, run.rows[work.row].worker);
  std::erase_if(captures, [&](const auto& calls) { return calls.size() != nodes.size(); });
  if (captures.size() != 1 || number >= nodes.size()) {
    chain.graph = StrCat(graph, " launched this, as node ", *own, ". ",
                         captures.empty() ? "The trace does not hold the graph's capture"
                                          : "Several captures in the trace may be the graph's",
                         ", so that its operator is not known.");
    return absl::OkStatus();
  }
  chain.graph = StrCat(graph, " launched this, as node ", *own,
                       ". By the order of its nodes, it was captured here:");
  const EventRef& call = captures.front()[number];
  chain.captured.push_back({"capture", call});
  return AddAround(run, call, chain.captured);
}

// The forward operator of the first of the links that has one.
absl::Status AddForward(const LoadedRun& run, const std::vector<ChainLink>& links,
                        LaunchChain& chain) {
  for (const ChainLink& link : links) {
    const std::optional<EventRef> forward = HostEventBefore(run, link.event);
    if (!forward) continue;
    chain.forward.push_back({"forward operator", *forward});
    return AddAround(run, *forward, chain.forward);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LaunchChain> ChainOf(const LoadedRun& run, std::uint32_t row, std::uint32_t track,
                                    std::uint32_t ordinal) {
  LaunchChain chain;
  const RowRef& ref = run.rows[row];
  const EventRef event = ReferTo(run, ref.worker, run.RowOf(ref).first_track + track, ordinal);
  if (run.RowOf(ref).kind == index::RowKind::kCounter) return chain;
  if (!IsOfDevice(run, row)) {
    RETURN_IF_ERROR(AddAround(run, event, chain.links));
    std::vector<ChainLink> own = {{"event", event}};
    own.insert(own.end(), chain.links.begin(), chain.links.end());
    RETURN_IF_ERROR(AddForward(run, own, chain));
    return chain;
  }
  const std::optional<EventRef> launch = HostEventBefore(run, event);
  if (!launch) return chain;
  chain.links.push_back({"launch", *launch});
  RETURN_IF_ERROR(AddAround(run, *launch, chain.links));
  if (Contains(launch->name, "GraphLaunch")) RETURN_IF_ERROR(MapNode(run, event, *launch, chain));
  RETURN_IF_ERROR(AddForward(run, chain.captured.empty() ? chain.links : chain.captured, chain));
  return chain;
}

}  // namespace strobe::viewer
