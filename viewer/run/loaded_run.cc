#include "viewer/run/loaded_run.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <tuple>
#include <unordered_map>

#include "collector/trace/xplane/names.h"
#include "common/base/duration.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::viewer {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kSeparators = "/-_:#. ";

using Json = nlohmann::ordered_json;

// Lines that profilers derive come first, in this order.
constexpr std::array<std::string_view, 9> kDerivedLines = {
    "Steps",         "XLA Modules",          "XLA Ops",     "Async XLA Ops", "XLA TraceMe",
    "Framework Ops", "Framework Name Scope", "Source code", "Launch Stats"};

int PlaneRank(std::string_view name) {
  if (xplane::IsDevicePlane(name)) return 0;
  return name.starts_with(xplane::kHostPlane) ? 1 : 2;
}

std::size_t LineRank(std::string_view name) {
  return static_cast<std::size_t>(
      std::find(kDerivedLines.begin(), kDerivedLines.end(), TensorCoreLine(name)) -
      kDerivedLines.begin());
}

// By row: the thread pool that it belongs to. Pools are told apart on planes of hosts only.
std::vector<std::string> PoolsOf(const index::Index& index) {
  std::vector<std::string> pools(index.rows().size());
  for (const index::Plane& plane : index.planes()) {
    if (PlaneRank(index.Text(plane.name)) != 1) continue;
    std::vector<std::uint32_t> rows;
    std::vector<std::string_view> names;
    for (std::uint32_t r = plane.first_row;
         r < plane.first_row + plane.rows && r < index.rows().size(); ++r) {
      if (index.rows()[r].kind == index::RowKind::kCounter) continue;
      rows.push_back(r);
      names.push_back(index.Text(index.rows()[r].name));
    }
    const std::vector<std::string> found = FindPools(names);
    for (std::size_t i = 0; i < rows.size(); ++i) pools[rows[i]] = found[i];
  }
  return pools;
}

// A worker's rows in the order in which the page shows them.
std::vector<std::uint32_t> OrderRows(const index::Index& index,
                                     const std::vector<std::string>& pools) {
  std::vector<std::uint32_t> order(index.rows().size());
  std::iota(order.begin(), order.end(), 0u);
  const auto rank = [&](std::uint32_t i) {
    const index::Row& row = index.rows()[i];
    const index::Plane& plane = index.planes()[row.plane];
    const std::string_view name = index.Text(plane.name);
    return std::tuple(PlaneRank(name), row.plane, std::string_view(pools[i]),
                      row.kind == index::RowKind::kCounter, LineRank(index.Text(row.name)));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return rank(a) < rank(b); });
  return order;
}

// `<worker>.index` beside `<worker>.xplane.pb`; empty for a trace that is no file.
std::string BesideOf(const convert::OpenTrace& trace) {
  return trace.path.empty()
             ? ""
             : StrCat(trace.path.substr(0, trace.path.rfind(".xplane.pb")), ".index");
}

absl::StatusOr<index::StoredIndex> Build(const convert::OpenTrace& trace,
                                         const index::Source& source, const index::Cache& cache,
                                         std::size_t threads, Progress& progress,
                                         std::string& warning) {
  ASSIGN_OR_RETURN(const xplane::Space space, convert::ReadSpace(trace.bytes()));
  for (const xplane::Plane& plane : space.planes) progress.total += plane.events();
  const index::BuildOptions options{.source = source,
                                    .threads = threads,
                                    .done = &progress.done,
                                    .stop = &progress.stop,
                                    .check = [&trace] { return trace.Check(); }};
  return index::BuildStored(cache, trace.bytes(), space, options, warning);
}

// The worker's shift in ps. The run's clock cannot hold traces that begin further apart than
// kMaxTimePs, so those are moved together, with a warning.
std::int64_t ShiftOf(const convert::WorkerTrace& worker, std::vector<std::string>& warnings) {
  constexpr std::int64_t kMaxShiftNs = kMaxTimePs / 1000;
  if (worker.shift_ns > kMaxShiftNs)
    warnings.push_back(StrCat(worker.worker, ": begins more than ",
                              kMaxShiftNs / 86'400'000'000'000,
                              " days after the first trace and is shown too early"));
  return std::clamp(worker.shift_ns, -kMaxShiftNs, kMaxShiftNs) * 1000;
}

// Takes over a worker's window. All workers have the same one, up to the error of their clocks; of
// workers that were recorded by different captures, it reaches from the first to the last.
void AddWindow(const convert::WorkerTrace& worker, LoadedRun& run) {
  if (worker.window_end_ns == 0 || run.zero_ns == 0) return;
  const auto on_clock = [&run](std::int64_t ns) {
    // Clamped, because a trace may hold any number.
    const std::int64_t apart_ns = ns - std::clamp(run.zero_ns, -kMaxTimePs, kMaxTimePs);
    return std::clamp(apart_ns, -kMaxTimePs / 1000, kMaxTimePs / 1000) * 1000;
  };
  const std::int64_t begin = on_clock(worker.window_begin_ns), end = on_clock(worker.window_end_ns);
  const bool first = run.window_begin_ps == run.window_end_ps;
  run.window_begin_ps = first ? begin : std::min(run.window_begin_ps, begin);
  run.window_end_ps = first ? end : std::max(run.window_end_ps, end);
}

std::string DurationText(std::int64_t ps) { return FormatDuration(Nanos{ps / 1000}); }

// Workers of one capture record at the same time. Those that do not overlap with most of the others
// are told.
void TellApart(std::vector<Worker*>& all) {
  std::ranges::sort(all, {}, &Worker::begin_ps);
  std::vector<std::pair<std::size_t, std::size_t>> groups;  // [first, last) of those that overlap.
  std::int64_t end_ps = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == 0 || all[i]->begin_ps() > end_ps) groups.emplace_back(i, i);
    groups.back().second = i + 1;
    end_ps = i == 0 ? all[i]->end_ps() : std::max(end_ps, all[i]->end_ps());
  }
  const auto most = std::ranges::max_element(
      groups, {}, [](const auto& group) { return group.second - group.first; });
  if (most == groups.end()) return;
  const auto [first, last] = *most;
  const std::string others = last - first == 1 ? all[first]->name : "most of the others";
  const std::int64_t begin = all[first]->begin_ps();
  const Worker* latest =
      *std::ranges::max_element(std::span(all).subspan(first, last - first), {}, &Worker::end_ps);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i >= first && i < last) continue;
    const std::string apart =
        i < first ? StrCat("ends ", DurationText(begin - all[i]->end_ps()), " before the begin of ")
                  : StrCat("begins ", DurationText(all[i]->begin_ps() - latest->end_ps()),
                           " after the end of ");
    all[i]->clock_problems.push_back(StrCat(
        apart, others, ": its clock is wrong by as much, or it was recorded at another time"));
  }
}

// The median of a worker's steps, in ps, as a row of steps tells it; 0 = it has none.
std::int64_t StepLength(const index::Index& index) {
  constexpr std::uint64_t kMaxSteps = 1000;
  std::vector<std::int64_t> lengths;
  for (const index::Row& row : index.rows()) {
    if (row.tracks == 0 || TensorCoreLine(index.Text(row.name)) != "Steps") continue;
    index.ForEachEntry(
        index.tracks()[row.first_track], 0, kMaxSteps - lengths.size(),
        [&](std::uint64_t, const index::Entry& entry) { lengths.push_back(entry.duration_ps); });
    if (lengths.size() >= kMaxSteps) break;
  }
  if (lengths.empty()) return 0;
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::ranges::nth_element(lengths, middle);
  return *middle;
}

// Tells the workers whose clock is known less well than what is to be compared.
void TellVague(const std::vector<Worker*>& all) {
  for (Worker* worker : all) {
    if (!worker->clock_error_ns) continue;
    const std::int64_t step_ps = StepLength(worker->index());
    const std::int64_t least_ps = step_ps > 0 ? step_ps : worker->end_ps() - worker->begin_ps();
    if (*worker->clock_error_ns <= least_ps / 1000) continue;
    worker->clock_problems.push_back(
        StrCat("its clock is known only within ", FormatDuration(Nanos{*worker->clock_error_ns}),
               step_ps > 0 ? ", and a step takes " : ", and it recorded ", DurationText(least_ps),
               ": its times cannot be compared with those of others"));
  }
}

void TellClockProblems(LoadedRun& run) {
  std::vector<Worker*> all;
  for (Worker& worker : run.workers) {
    if (worker.index().header().events > 0) all.push_back(&worker);
  }
  if (all.size() < 2) return;
  TellApart(all);
  TellVague(all);
}

// Equal for equal traces in every process, because links hold it.
std::string VersionOf(const std::vector<Worker>& workers) {
  std::string text = StrCat(index::kVersion);
  for (const Worker& worker : workers) {
    const index::Source& source = worker.index().header().source;
    text += StrCat("\n", worker.name, " ", source.size, " ", source.mark);
  }
  return StrCat(Fnv1a(text));
}

// How many of a row's first tracks lie above another one and have, like it, an event that fills
// nearly all of the row: frames of Python's start, or scopes of the whole program.
std::uint32_t WrappersOf(const index::Index& index, const index::Row& row) {
  constexpr double kNearly = 0.9;
  const std::span<const index::Track> tracks = index.tracks().subspan(row.first_track, row.tracks);
  // Floating point, since a hostile trace's times may overflow.
  double begin = std::numeric_limits<double>::infinity(), end = -begin;
  for (const index::Track& track : tracks) {
    if (!index.blocks(track).empty())
      begin = std::min(begin, static_cast<double>(index.blocks(track).front().begin_ps));
    end = std::max(end, static_cast<double>(track.end_ps));
  }
  const auto last = std::find_if(tracks.begin(), tracks.end(), [&](const index::Track& track) {
    return !(static_cast<double>(track.longest_ps) >= kNearly * (end - begin));
  });
  const auto filled = static_cast<std::uint32_t>(last - tracks.begin());
  return filled == 0 ? 0 : filled - 1;
}

}  // namespace

std::string PoolOf(std::string_view thread) {
  std::string_view name = thread, behind;
  // Python appends what a thread runs: "Thread-2 (serve)".
  if (const std::size_t open = name.rfind(" (");
      name.ends_with(')') && open != std::string_view::npos) {
    behind = name.substr(open);
    name = name.substr(0, open);
  }
  const std::size_t last = name.find_last_not_of(kDigits);
  if (last == std::string_view::npos || last + 1 == name.size()) return std::string(thread);
  // A number is a part of the name unless something separates them, as in "v4".
  if (kSeparators.find(name[last]) == std::string_view::npos) return std::string(thread);
  name = name.substr(0, last);
  // Ids may be negative, as in "tf_XLAEigen/-7".
  if (name.ends_with('/') && thread[last] == '-') name.remove_suffix(1);
  return name.empty() ? std::string(thread) : StrCat(name, behind);
}

std::vector<std::string> FindPools(const std::vector<std::string_view>& threads) {
  std::vector<std::string> pools;
  std::unordered_map<std::string, std::size_t> sizes;
  for (const std::string_view thread : threads) {
    pools.push_back(PoolOf(thread));
    ++sizes[pools.back()];
  }
  for (std::string& pool : pools) {
    if (sizes[pool] < 2) pool.clear();
  }
  return pools;
}

std::string_view TensorCoreLine(std::string_view line) {
  if (line == "Sparse Core Steps") return "Steps";
  if (line == "Sparse Core Modules") return "XLA Modules";
  if (line == "Sparse Core Ops") return "XLA Ops";
  return line;
}

std::uint32_t LoadedRun::NumberOf(std::uint32_t worker, std::uint32_t row) const {
  return numbers[worker][row];
}

absl::Status LoadedRun::Check() const {
  for (const Worker& worker : workers) RETURN_IF_ERROR(worker.Check());
  return absl::OkStatus();
}

absl::StatusOr<LoadedRun> LoadRun(std::string name, std::vector<convert::OpenTrace> traces,
                                  const index::Cache& cache, std::size_t threads,
                                  Progress& progress) {
  LoadedRun run{.name = std::move(name)};
  absl::StatusOr<convert::AlignedTraces> read =
      convert::AlignTraces(traces, xplane::Depth::kPlanes);
  RETURN_IF_ERROR(convert::Unchanged(traces, read.status()));
  convert::AlignedTraces& aligned = *read;
  run.zero_ns = aligned.zero_ns;
  run.begin_ps = std::numeric_limits<std::int64_t>::max();
  run.end_ps = std::numeric_limits<std::int64_t>::min();
  run.left_out = std::move(aligned.left_out);
  // Workers of one role lie beside each other.
  std::stable_sort(aligned.workers.begin(), aligned.workers.end(),
                   [](const auto& a, const auto& b) { return a.role < b.role; });
  for (convert::WorkerTrace& from : aligned.workers) {
    if (progress.stop) return absl::CancelledError("the run is not needed any more");
    const std::size_t i = from.trace;
    std::string warning;
    const index::Source source = index::SourceOf(traces[i].bytes(), traces[i].identity);
    absl::StatusOr<index::StoredIndex> stored =
        index::OpenStored(cache, BesideOf(traces[i]), source, warning);
    if (!stored.ok()) stored = Build(traces[i], source, cache, threads, progress, warning);
    const bool is_only_one_left = run.workers.empty() && &from == &aligned.workers.back();
    if (absl::IsDataLoss(stored.status()) && traces[i].Check().ok() && !is_only_one_left) {
      run.left_out.push_back({from.worker, MessageOf(stored.status())});
      continue;
    }
    if (!stored.ok())
      return absl::Status(stored.status().code(),
                          ToAbsl(StrCat(from.worker, ": ", MessageOf(stored.status()))));
    if (!warning.empty()) run.warnings.push_back(StrCat(from.worker, ": ", warning));
    const index::Header& header = stored->index().header();
    const std::int64_t shift_ps = ShiftOf(from, run.warnings);
    const std::uint64_t events = header.events;
    run.events += events;
    AddWindow(from, run);
    ASSIGN_OR_RETURN(xplane::Space derived,
                     xplane::Space::Read(stored->index().derived(), xplane::Depth::kPlanes));
    auto files = std::make_shared<WorkerFiles>(WorkerFiles{.trace = std::move(traces[i]),
                                                           .space = std::move(from.space),
                                                           .stored = *std::move(stored),
                                                           .derived = std::move(derived)});
    run.workers.push_back({.name = from.worker,
                           .role = std::move(from.role),
                           .files = std::move(files),
                           .shift_ps = shift_ps,
                           .clock_offset_ns = from.clock_offset_ns,
                           .clock_error_ns = from.clock_error_ns});
    if (events == 0) continue;
    run.begin_ps = std::min(run.begin_ps, run.workers.back().begin_ps());
    run.end_ps = std::max(run.end_ps, run.workers.back().end_ps());
  }
  for (const convert::LeftOut& worker : run.left_out) run.warnings.push_back(worker.Warning());
  if (run.events == 0) run.begin_ps = run.end_ps = 0;
  for (std::uint32_t worker = 0; worker < run.workers.size(); ++worker) {
    const index::Index& index = run.workers[worker].index();
    run.numbers.emplace_back(index.rows().size());
    std::vector<std::string> pools = PoolsOf(index);
    for (const std::uint32_t row : OrderRows(index, pools)) {
      run.numbers.back()[row] = static_cast<std::uint32_t>(run.rows.size());
      run.rows.push_back({worker, row, std::move(pools[row])});
    }
  }
  TellClockProblems(run);
  run.version = VersionOf(run.workers);
  return run;
}

std::string DescribeRun(const LoadedRun& run) {
  Json workers = Json::array(), rows = Json::array(), left_out = Json::array();
  for (const convert::LeftOut& worker : run.left_out) left_out.push_back(worker.worker);
  for (const Worker& worker : run.workers) {
    Json errors = Json::array();
    for (const std::string_view text : worker.files->space.errors) errors.push_back(text);
    for (const std::string_view text : worker.files->space.warnings) errors.push_back(text);
    workers.push_back(
        {{"name", worker.name},
         {"role", worker.role},
         {"events", worker.index().header().events},
         {"shiftPs", worker.shift_ps},
         {"clockOffsetNs", worker.clock_offset_ns},
         {"clockErrorNs", worker.clock_error_ns ? Json(*worker.clock_error_ns) : Json()},
         {"clockProblems", worker.clock_problems},
         {"problems", std::move(errors)}});
  }
  for (const RowRef& ref : run.rows) {
    const index::Index& index = run.WorkerOf(ref).index();
    const index::Row& row = run.RowOf(ref);
    const index::Plane& plane = index.planes()[row.plane];
    std::uint32_t lanes = 0;
    for (std::uint32_t i = 0; i < row.tracks; ++i)
      lanes = std::max(lanes, index.tracks()[row.first_track + i].lane + 1);
    rows.push_back({{"worker", ref.worker},
                    {"plane", index.Text(plane.name)},
                    {"pool", ref.pool},
                    {"name", index.Text(row.name)},
                    {"id", row.id},
                    {"kind", row.kind == index::RowKind::kCounter ? "counter" : "spans"},
                    {"tracks", row.tracks},
                    {"lanes", lanes},
                    {"wrappers", WrappersOf(index, row)},
                    {"events", row.events}});
  }
  Json window;  // Null when no trace tells.
  if (run.window_begin_ps < run.window_end_ps)
    window = {{"beginPs", run.window_begin_ps}, {"endPs", run.window_end_ps}};
  const Json json = {{"run", run.name},
                     {"version", run.version},
                     {"beginPs", run.begin_ps},
                     {"endPs", run.end_ps},
                     {"window", std::move(window)},
                     {"alignedBy", run.aligned_by},
                     {"zeroNs", std::to_string(run.zero_ns)},
                     {"events", run.events},
                     {"workers", std::move(workers)},
                     {"rows", std::move(rows)},
                     {"leftOut", std::move(left_out)},
                     {"warnings", run.warnings}};
  return JsonText(json);
}

}  // namespace strobe::viewer
