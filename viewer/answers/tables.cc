#include "viewer/answers/tables.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "collector/trace/digest/compute_digest.h"
#include "collector/trace/tally/memory_curve.h"
#include "collector/trace/tally/merged_tally.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "viewer/answers/event_source.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;
using tally::MergedRow;
using tally::TallyRow;
using IsGone = std::function<bool()>;

constexpr std::size_t kMaxStepRows = 2000;
constexpr std::array<std::string_view, 6> kTables = {"kernels",       "operators", "modules",
                                                     "communication", "memory",    "steps"};
// How many of them come from a tally: the first ones.
constexpr std::size_t kTallied = 4;

// A rate, which is 0 if it is not known.
Json RateJson(double value) { return value > 0 ? Json(value) : Json(); }

// The part of "regs:32 ... grid:1,1,1 block:128,1,1" with this key; empty if there is none.
std::string_view PartOf(std::string_view launch, std::string_view key) {
  while (!launch.empty()) {
    const std::string_view part = launch.substr(0, launch.find(' '));
    if (part.starts_with(key) && part.substr(key.size()).starts_with(':'))
      return part.substr(key.size() + 1);
    launch.remove_prefix(std::min(part.size() + 1, launch.size()));
  }
  return {};
}

Json TextJson(std::string_view text) { return text.empty() ? Json() : Json(text); }
Json CountJson(std::uint64_t count) { return count > 0 ? Json(count) : Json(); }

Json KernelJson(const TallyRow& row) {
  const auto part = [&](std::string_view key) { return TextJson(PartOf(row.launch, key)); };
  return {{"category", TextJson(row.category)},
          {"flops", CountJson(row.flops)},
          {"accessedBytes", CountJson(row.accessed_bytes)},
          {"grid", part("grid")},
          {"block", part("block")},
          {"registers", part("regs")},
          {"sharedBytes", part("static_shared")},
          {"dynamicSharedBytes", part("dynamic_shared")},
          {"occupancy",
           row.occupancy_of_ps > 0 ? Json(row.occupancy_ps / row.occupancy_of_ps) : Json()},
          {"tensorCores", row.kind == "kernel" && tally::UsesTensorCores(row.name)},
          {"launchesDiffer", row.launches_differ},
          {"launchedBy", row.launched_by},
          {"launchersDiffer", row.launchers_differ}};
}

Json RowJson(std::string_view table, const TallyRow& row) {
  Json json = {{"name", row.name},        {"kind", row.kind},      {"count", row.count},
               {"totalPs", row.total_ps}, {"selfPs", row.self_ps}, {"maxPs", row.max_ps}};
  if (table == "kernels") {
    json.update(KernelJson(row));
  } else if (table == "communication") {
    json.update(Json{{"group", row.group},
                     {"ranks", CountJson(row.ranks)},
                     {"bytes", CountJson(row.bytes)},
                     {"algorithmBytesPerS", RateJson(row.bytes_per_s)},
                     {"busBytesPerS", RateJson(row.BusBytesPerSecond())},
                     {"exposedPs", row.exposed_ps ? Json(*row.exposed_ps) : Json()}});
  } else {
    json.update(Json{{"shapes", TextJson(row.shapes)},
                     {"shapesDiffer", row.shapes_differ},
                     {"devicePs", row.device_ps},
                     {"deviceSelfPs", row.device_self_ps}});
  }
  return json;
}

Json ToJson(const std::optional<tally::OddWorker>& odd) {
  if (!odd) return {};
  return {{"worker", odd->worker}, {"totalPs", odd->total_ps}, {"medianPs", odd->median_ps}};
}

Json RowJson(std::string_view table, const MergedRow& row) {
  Json json = RowJson(table, row.sum);
  json["workers"] = row.workers;
  json["odd"] = ToJson(row.odd);
  return json;
}

// The answer with the rows of a table of one worker's tally or of all workers'.
template <typename Tally, typename Table>
std::string TallyText(std::string_view name, std::optional<std::uint32_t> worker, const Tally& sums,
                      const Table& table) {
  Json rows = Json::array();
  for (const auto& row : table.rows) rows.push_back(RowJson(name, row));
  return JsonText(Json{{"table", name},
                       {"worker", worker ? Json(*worker) : Json()},
                       {"rows", std::move(rows)},
                       {"leftOut", table.left_out},
                       {"devicePs", sums.device_ps},
                       {"joinsLaunches", sums.joins_launches}});
}

std::string KeyOf(std::string_view table, std::optional<std::uint32_t> worker) {
  return worker ? StrCat(table, " ", *worker) : std::string(table);
}

using Answers = std::map<std::string, std::string>;

template <typename Tally>
void KeepTally(std::optional<std::uint32_t> worker, const Tally& sums, Answers& answers) {
  const std::array tables = {&sums.kernels, &sums.operators, &sums.modules, &sums.communication};
  for (std::size_t i = 0; i < kTallied; ++i)
    answers[KeyOf(kTables[i], worker)] = TallyText(kTables[i], worker, sums, *tables[i]);
}

absl::Status MakeTallies(const LoadedRun& run, std::optional<std::uint32_t> worker,
                         const IsGone& is_gone, Answers& answers) {
  if (worker) {
    ASSIGN_OR_RETURN(const tally::Tally one,
                     tally::TallyTrace(TallySourceOf(run.workers[*worker], is_gone)));
    KeepTally(worker, one, answers);
    return absl::OkStatus();
  }
  tally::Merger merger(run.workers.size());
  for (std::uint32_t i = 0; i < run.workers.size(); ++i) {
    ASSIGN_OR_RETURN(const tally::Tally one,
                     tally::TallyTrace(TallySourceOf(run.workers[i], is_gone)));
    merger.Add(i, one);
  }
  KeepTally(worker, std::move(merger).Finish(), answers);
  return absl::OkStatus();
}

// ---- Memory -----------------------------------------------------------------------------------

Json ToJson(const Worker& worker, const tally::MemoryCurve& curve) {
  Json points = Json::array(), alive = Json::array();
  for (const auto& [at_ps, value] : curve.points)
    points.push_back(Json::array({at_ps + worker.shift_ps, value}));
  for (const tally::Allocation& one : curve.alive)
    alive.push_back(
        {{"beginPs", one.begin_ps + worker.shift_ps}, {"bytes", one.bytes}, {"by", one.by}});
  Json json;
  json["points"] = std::move(points);
  if (curve.tells_allocations) {
    json["alive"] = std::move(alive);
    json["aliveBytes"] = curve.alive_bytes;
    json["aliveLeftOut"] = curve.alive_left_out;
  }
  return json;
}

absl::StatusOr<std::string> MemoryText(const LoadedRun& run, std::optional<std::uint32_t> worker,
                                       const IsGone& is_gone) {
  Json rows = Json::array();
  std::uint64_t left_out = 0;
  for (std::uint32_t i = 0; i < run.workers.size(); ++i) {
    if (worker && *worker != i) continue;
    const Worker& of = run.workers[i];
    const auto allocations = worker ? tally::Allocations::kRead : tally::Allocations::kLeftOut;
    ASSIGN_OR_RETURN(const std::vector<tally::MemoryCurve> curves,
                     tally::ReadMemory(TallySourceOf(of, is_gone), allocations));
    for (const tally::MemoryCurve& curve : curves) {
      if (rows.size() == tally::kMaxRows) {
        ++left_out;
        continue;
      }
      Json row = {{"worker", i},
                  {"plane", curve.plane},
                  {"counter", curve.counter},
                  {"values", curve.values},
                  {"peak", curve.peak},
                  {"peakAtPs", curve.peak_at_ps + of.shift_ps},
                  {"first", curve.first},
                  {"last", curve.last}};
      if (worker) row.update(ToJson(of, curve));
      rows.push_back(std::move(row));
    }
  }
  return JsonText(Json{{"table", "memory"},
                       {"worker", worker ? Json(*worker) : Json()},
                       {"rows", std::move(rows)},
                       {"leftOut", left_out}});
}

// ---- Steps ------------------------------------------------------------------------------------

// The times of a step that are told, in ps: by worker, or their means.
struct StepTimes {
  std::int64_t total_ps = 0;
  digest::Breakdown time{};
  digest::HostTime host{};
};

Json PartsJson(const StepTimes& times, const digest::Knows& knows, std::int64_t share) {
  const auto part = [&](bool known, std::int64_t ns) {
    return known ? Json(ns * 1000 / share) : Json();
  };
  const bool device = knows.device;
  return {{"totalPs", times.total_ps / share},
          {"computePs", part(device, times.time.compute_ns)},
          {"exposedCommunicationPs", part(device, times.time.exposed_communication_ns)},
          {"exposedCopiesPs", part(device, times.time.exposed_copies_ns)},
          {"idlePs", part(device && !knows.host_device, times.time.idle_ns)},
          {"inputPs", part(knows.input, times.host.input_stall_ns)},
          {"collectionPs", part(knows.garbage_collection, times.host.garbage_collection_ns)},
          {"hostBoundPs", part(knows.launches, times.host.host_bound_ns)}};
}

// A step of all workers.
struct StepRow {
  StepTimes sum{};
  std::int64_t begin_ps = 0, max_ps = 0;
  std::uint32_t workers = 0;
  std::vector<std::optional<std::int64_t>> times{};  // By worker.
};

void AddStep(const digest::Step& step, std::uint32_t worker, std::int64_t begin_ps, StepRow& row) {
  const std::int64_t length_ps = (step.end_ns - step.begin_ns) * 1000;
  row.begin_ps = row.workers == 0 ? begin_ps : std::min(row.begin_ps, begin_ps);
  row.max_ps = std::max(row.max_ps, length_ps);
  ++row.workers;
  row.times[worker] = length_ps;
  StepTimes& sum = row.sum;
  sum.total_ps = AddSaturated(sum.total_ps, length_ps);
  sum.time.compute_ns += step.time.compute_ns;
  sum.time.exposed_communication_ns += step.time.exposed_communication_ns;
  sum.time.exposed_copies_ns += step.time.exposed_copies_ns;
  sum.time.idle_ns += step.time.idle_ns;
  sum.host.input_stall_ns += step.host.input_stall_ns;
  sum.host.garbage_collection_ns += step.host.garbage_collection_ns;
  sum.host.host_bound_ns += step.host.host_bound_ns;
}

// The steps as the report takes them: from the digest of each worker's trace.
absl::StatusOr<std::string> StepsText(const LoadedRun& run, std::optional<std::uint32_t> worker,
                                      const IsGone& is_gone) {
  std::map<std::pair<std::string, std::int64_t>, StepRow> steps;
  digest::Knows knows{.device = true, .launches = true, .input = true, .garbage_collection = true};
  std::uint64_t left_out = 0;
  for (std::uint32_t i = 0; i < run.workers.size(); ++i) {
    if (worker && *worker != i) continue;
    if (is_gone && is_gone()) return absl::CancelledError("nobody waits for the steps any more");
    ASSIGN_OR_RETURN(const xplane::Space space,
                     convert::ReadSpace(run.workers[i].files->trace.bytes()));
    ASSIGN_OR_RETURN(const digest::Digest digest,
                     digest::ComputeDigest(space, run.workers[i].name));
    if (digest.steps.empty()) continue;
    // A mean is known if all workers know its parts.
    knows.device = knows.device && digest.knows.device;
    knows.host_device = knows.host_device || digest.knows.host_device;
    knows.launches = knows.launches && digest.knows.launches;
    knows.input = knows.input && digest.knows.input;
    knows.garbage_collection = knows.garbage_collection && digest.knows.garbage_collection;
    for (const digest::Step& step : digest.steps) {
      std::pair key(digest.names[step.loop], step.number);
      if (!steps.contains(key) && steps.size() >= kMaxStepRows) {
        ++left_out;
        continue;
      }
      StepRow& row = steps[std::move(key)];
      row.times.resize(run.workers.size());
      const std::int64_t begin_ps =
          std::clamp(step.begin_ns, -kMaxTimePs / 1000, kMaxTimePs / 1000) * 1000;
      AddStep(step, i, begin_ps + run.workers[i].shift_ps, row);
    }
  }
  Json rows = Json::array();
  for (const auto& [key, row] : steps) {
    Json json = {{"name", key.first}, {"number", key.second}, {"beginPs", row.begin_ps}};
    json.update(PartsJson(row.sum, knows, row.workers));
    if (!worker) {
      json["maxPs"] = row.max_ps;
      json["workers"] = row.workers;
      json["odd"] = ToJson(tally::FindOdd(row.times));
    }
    rows.push_back(std::move(json));
  }
  return JsonText(Json{{"table", "steps"},
                       {"worker", worker ? Json(*worker) : Json()},
                       {"rows", std::move(rows)},
                       {"leftOut", left_out}});
}

}  // namespace

std::string TableNames() {
  std::vector<std::string> names(kTables.begin(), kTables.end());
  return Join(names, ", ");
}

absl::StatusOr<std::string> TableOf(const LoadedRun& run, std::string_view table,
                                    std::optional<std::uint32_t> worker,
                                    const std::function<bool()>& is_gone) {
  const auto* found = std::ranges::find(kTables, table);
  if (found == kTables.end())
    return absl::NotFoundError(StrCat("table: write one of ", TableNames()));
  if (worker && *worker >= run.workers.size())
    return absl::NotFoundError("worker: there is no such worker");
  KeptTables& kept = *run.tables;
  MutexLock lock(&kept.mutex);
  const std::string key = KeyOf(table, worker);
  if (const auto there = kept.answers.find(key); there != kept.answers.end()) return there->second;
  if (kept.answers.size() >= KeptTables::kMaxKept) kept.answers.clear();
  if (table == "memory") {
    ASSIGN_OR_RETURN(kept.answers[key], MemoryText(run, worker, is_gone));
  } else if (table == "steps") {
    ASSIGN_OR_RETURN(kept.answers[key], StepsText(run, worker, is_gone));
  } else {
    RETURN_IF_ERROR(MakeTallies(run, worker, is_gone, kept.answers));
  }
  return kept.answers[key];
}

}  // namespace strobe::viewer
