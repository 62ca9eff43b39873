#include "collector/trace/report/run_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "collector/trace/digest/digest_json.h"
#include "collector/trace/report/headline.h"
#include "collector/trace/report/report_json.h"
#include "common/base/saturated.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::report {
namespace {

using RunJson = nlohmann::ordered_json;

constexpr std::size_t kMaxOpNames = 20'000, kMaxOpRows = 50, kMaxMissingRows = 20;
constexpr std::size_t kMaxStepRows = 1000, kMaxCallRows = 200, kMaxSentences = 50,
                      kMaxStageRows = 256;

// Cuts a list of the report.
void CutList(const char* key, std::size_t most, RunJson& json) {
  RunJson& list = json[key];
  if (list.size() > most)
    list.erase(list.begin() + static_cast<RunJson::difference_type>(most), list.end());
}

// The durations of each step, and who took longest.
RunJson StepRows(const Job& job) {
  RunJson rows = RunJson::array();
  for (const JobStep& step : job.steps) {
    if (rows.size() == kMaxStepRows) break;
    if (step.workers.empty()) continue;
    double sum = 0;
    const WorkerStep* longest = &step.workers.front();
    for (const WorkerStep& worker : step.workers) {
      sum += static_cast<double>(worker.end_ns - worker.begin_ns);
      if (worker.OwnTotal() > longest->OwnTotal()) longest = &worker;
    }
    rows.push_back({{"number", step.number},
                    {"workers", step.workers.size()},
                    {"meanNs", sum / static_cast<double>(step.workers.size())},
                    {"mostOwnTime", job.workers[longest->worker].name},
                    {"ownNs", longest->OwnTotal()}});
  }
  return rows;
}

}  // namespace

void RunReport::Add(const digest::Digest& digest) {
  merger_.Add(digest);
  engine_.Add(digest);
  ++added_;
  if (digest.knows.device) {
    span_ns_ += static_cast<double>(digest.time.span_ns);
    exposed_ns_ += static_cast<double>(digest.time.exposed_communication_ns);
  }
  AddOps(digest);
  if (rows_.size() < kMaxWorkerRows)
    rows_.push_back({.worker = digest.worker,
                     .rank = digest.rank,
                     .clock_error_ns = digest.clock_error_ns,
                     .steps = digest.steps.size(),
                     .knows = digest.knows,
                     .time = digest.time,
                     .host_time = digest.host_time});
}

void RunReport::AddOps(const digest::Digest& digest) {
  for (const digest::Op& op : digest.ops) {
    OpKey key(op.kind, digest.names[op.name]);
    auto found = ops_.find(key);
    if (found == ops_.end()) {
      if (ops_.size() == kMaxOpNames) continue;  // Digests of many workers may name any number.
      found = ops_.try_emplace(std::move(key)).first;
    }
    found->second.count += op.count;
    found->second.self_ns = AddSaturated(found->second.self_ns, op.self_ns);
    ++found->second.workers;
  }
}

void RunReport::AddMissing(std::string_view worker, std::string_view why) {
  ++missing_count_;
  if (missing_.size() < kMaxMissingRows) missing_.emplace_back(worker, why);
}

std::string RunReport::HeadlineOf(const Job& job, const StragglerReport& stragglers,
                                  const EngineReport& engine) const {
  if (added_ == 0 && missing_count_ == 0) return "not decidable: no worker has a trace";
  if (added_ == 0) return StrCat("not decidable: no trace is summed up: ", missing_.front().second);
  const std::string headline = WithEngine(engine, added_, Headline(job, stragglers));
  if (missing_count_ == 0) return headline;
  return StrCat(headline, "; ", missing_count_, " of ", added_ + missing_count_,
                " workers are missing");
}

RunFigures RunReport::FiguresOf(const StragglerReport& stragglers) const {
  RunFigures figures;
  if (span_ns_ > 0) figures.exposed_communication = std::clamp(exposed_ns_ / span_ns_, 0.0, 1.0);
  if (stragglers.steps == 0) return figures;
  figures.step_seconds = stragglers.step_ns / 1e9;
  // Metrics and triggers get what is certain.
  if (stragglers.likely) return figures;
  const double lost = stragglers.stragglers.empty() ? 0 : stragglers.held_up.ns;
  // Zero seconds are told only where a difference would have been seen; else the figure is unknown.
  const bool none =
      stragglers.workers > 1 && stragglers.smallest_ns > 0 &&
      std::all_of(stragglers.not_decided.begin(), stragglers.not_decided.end(),
                  [](const Straggler& late) { return late.verdict == Verdict::kNobodyWaits; });
  if (lost > 0 || none) figures.straggler_seconds = lost / 1e9;
  return figures;
}

MadeReport RunReport::Finish(std::string_view capture_id, std::string_view run,
                             std::size_t max_bytes) {
  const Job job = merger_.Finish(added_ + missing_count_);
  const StragglerReport found = FindStragglers(job);
  const EngineReport engine = engine_.Finish();
  MadeReport made{.headline = HeadlineOf(job, found, engine), .figures = FiguresOf(found)};
  // Digests arrive in any order. Workers without a rank come last.
  std::sort(rows_.begin(), rows_.end(), [](const WorkerRow& a, const WorkerRow& b) {
    return std::tuple(!a.rank, a.rank, std::string_view(a.worker)) <
           std::tuple(!b.rank, b.rank, std::string_view(b.worker));
  });
  RunJson workers = RunJson::array(), missing = RunJson::array(), ops = RunJson::array();
  for (const WorkerRow& row : rows_)
    workers.push_back({{"worker", row.worker},
                       {"rank", digest::KnownOrNull(row.rank)},
                       {"clockErrorNs", digest::KnownOrNull(row.clock_error_ns)},
                       {"steps", row.steps},
                       {"hostDevice", row.knows.host_device},
                       {"time", row.knows.device ? digest::TimeJson(row.time) : RunJson()},
                       {"hostTime", digest::HostTimeJson(row.host_time, row.knows)}});
  for (const auto& [worker, why] : missing_) missing.push_back({{"worker", worker}, {"why", why}});
  std::vector<std::pair<OpKey, OpRow>> sorted(ops_.begin(), ops_.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.self_ns > b.second.self_ns;
  });
  if (sorted.size() > kMaxOpRows) sorted.resize(kMaxOpRows);
  for (const auto& [key, op] : sorted)
    ops.push_back({{"name", key.second},
                   {"kind", digest::NameOf(key.first)},
                   {"count", op.count},
                   {"selfNs", op.self_ns},
                   {"workers", op.workers}});
  RunJson stragglers = StragglersToJson(job, found);
  CutList("waits", kMaxWorkerRows, stragglers);
  CutList("collectives", kMaxCallRows, stragglers);
  CutList("unknown", kMaxSentences, stragglers);
  CutList("stages", kMaxStageRows, stragglers);
  RunJson json = {
      {"format", 1},
      {"captureId", capture_id},
      {"run", run},
      {"headline", made.headline},
      {"figures",
       {{"stepSeconds", digest::KnownOrNull(made.figures.step_seconds)},
        {"stragglerSeconds", digest::KnownOrNull(made.figures.straggler_seconds)},
        {"exposedCommunicationRatio", digest::KnownOrNull(made.figures.exposed_communication)}}},
      {"stragglers", std::move(stragglers)},
      {"steps", StepRows(job)},
      {"ops", std::move(ops)},
      {"workers", std::move(workers)},
      {"workersLeftOut", added_ - rows_.size()},
      {"missing", std::move(missing)},
      {"missingWorkers", missing_count_}};
  if (!engine.empty()) json["engine"] = EngineToJson(engine);
  const auto dump = [&json] { return JsonText(json) + "\n"; };
  made.json = dump();
  if (made.json.size() <= max_bytes) return made;
  // The lists go, because the headline and the stragglers are what a report is read for.
  for (const char* list : {"workers", "steps", "ops"}) json[list] = RunJson::array();
  for (const char* list : {"waits", "collectives"}) json["stragglers"][list] = RunJson::array();
  json["stragglers"].erase("waitMap");
  json["workersLeftOut"] = added_;
  made.json = dump();
  return made;
}

}  // namespace strobe::report
