#include "viewer/report/reports.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <variant>

#include "common/base/strings.h"
#include "viewer/api/run_api.h"
#include "viewer/report/report_page.h"

namespace strobe::viewer {
namespace {

// Null if the run has none.
nlohmann::ordered_json ReadStoredVerdict(const StoredRun& stored) {
  const absl::StatusOr<std::string> text =
      storage::GetText(*stored.store, storage::EvidenceKey(stored.run), kMaxEvidenceRead);
  if (absl::IsNotFound(text.status())) return nullptr;
  absl::StatusOr<nlohmann::ordered_json> verdict =
      text.ok() ? ReadVerdict(*text) : absl::StatusOr<nlohmann::ordered_json>(text.status());
  if (verdict.ok()) return *std::move(verdict);
  return NoVerdict(StrCat("evidence.json cannot be shown: ", MessageOf(verdict.status())));
}

using Json = nlohmann::ordered_json;

// The page repeats its request, so that it can show progress.
constexpr Nanos kReportWait = std::chrono::milliseconds(200);
// A report that is being computed is given up for another one if nobody has asked for it for this
// long.
constexpr Nanos kReportPatience = std::chrono::seconds(5);
constexpr std::size_t kMaxWaiting = 100;

http::Page StatePage(std::string_view run, std::string_view state, std::string_view problem,
                     const Json& more) {
  Json page = {{"run", run}, {"state", state}, {"problem", problem}, {"report", nullptr}};
  page.update(more);
  return JsonPage(page);
}

http::Page WithReport(std::string_view run, std::string_view state, std::string_view problem,
                      const Json& report) {
  return StatePage(run, state, problem,
                   {{"compares", ComparesWorkers(report)}, {"report", report}});
}

std::string WhyNotMade(const LoadedRun& run, Making making) {
  if (run.events == 0) return "the traces hold no events";
  if (run.events > kMaxReportEvents)
    return StrCat("the traces hold more than ", kMaxReportEvents,
                  " events; strobe report computes it");
  if (making == Making::kIfCheap && !IsCheap(run)) return "it has not been asked for";
  return "";
}

// What tells the run's traces from others that had the same names.
std::vector<index::Source> SourcesOf(const LoadedRun& run) {
  std::vector<index::Source> sources;
  for (const Worker& worker : run.workers) sources.push_back(worker.index().header().source);
  return sources;
}

}  // namespace

StoredReport ReadStoredReport(Library& library, const std::string& run) {
  const auto problem = [](const absl::Status& status) {
    return StoredReport{.problem = StrCat("report.json cannot be shown: ", MessageOf(status))};
  };
  const absl::StatusOr<StoredRun> stored = library.Store(run);
  if (absl::IsNotFound(stored.status())) return {};
  if (!stored.ok()) return problem(stored.status());
  const absl::StatusOr<std::string> text =
      storage::GetText(*stored->store, storage::ReportKey(stored->run), kMaxReportRead);
  if (absl::IsNotFound(text.status())) return {.evidence = ReadStoredVerdict(*stored)};
  if (!text.ok()) return problem(text.status());
  absl::StatusOr<nlohmann::ordered_json> report = ReadReport(*text);
  if (!report.ok()) return problem(report.status());
  return {.report = *std::move(report)};
}

bool IsCheap(const LoadedRun& run) {
  return run.events <= kCheapEvents &&
         std::none_of(run.workers.begin(), run.workers.end(), [](const Worker& worker) {
           return std::holds_alternative<FetchedMemory>(worker.files->trace.content);
         });
}

absl::StatusOr<Making> MakingOf(const std::string& text) {
  if (text.empty()) return Making::kNever;
  if (text == "cheap") return Making::kIfCheap;
  if (text == "always") return Making::kAlways;
  return absl::InvalidArgumentError("make: write cheap or always");
}

http::Page StoredReportPage(const std::string& run, const StoredReport& stored) {
  if (!stored.evidence.is_null())
    return StatePage(run, "stored", "", {{"evidence", stored.evidence}});
  if (stored.report.is_null())
    return StatePage(run, "none", stored.problem, {{"why", "no report is stored with the run"}});
  return WithReport(run, "stored", "", stored.report);
}

http::Page LoadingReportPage(const std::string& run, const StoredReport& stored) {
  return StatePage(run, "loading", stored.problem, Json::object());
}

std::optional<std::string> Reports::ProblemOf(const std::string& run) {
  MutexLock lock(&mutex_);
  const MonoTime now = clock_->MonoNow();
  // A capture may have stored its report since somebody got the one that was computed.
  for (const Entry& entry : entries_)
    if (entry.run == run && !entry.served && now - entry.asked_at <= kReportPatience)
      return entry.problem;
  for (const Waiting& waiting : waiting_)
    if (waiting.run == run && now - waiting.asked_at <= kReportPatience) return waiting.problem;
  return std::nullopt;
}

void Reports::NoteProblem(const std::string& run, const std::string& problem) {
  MutexLock lock(&mutex_);
  std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.run == run; });
  if (waiting_.size() >= kMaxWaiting) waiting_.erase(waiting_.begin());
  waiting_.push_back({run, problem, clock_->MonoNow()});
}

bool Reports::Has(const std::string& name, const LoadedRun& run) {
  MutexLock lock(&mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.run == name && entry.sources == SourcesOf(run);
  });
}

std::optional<Reports::Entry> Reports::TryEntryOf(const std::string& name,
                                                  const std::shared_ptr<const LoadedRun>& run,
                                                  const std::string& problem,
                                                  const std::string& asker) {
  Entry evicted;  // Declared before the lock: its destructor waits for a thread.
  MutexLock lock(&mutex_);
  const MonoTime now = clock_->MonoNow();
  std::vector<index::Source> sources = SourcesOf(*run);
  auto place = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& entry) { return entry.run == name; });
  if (place != entries_.end() && place->sources == sources) {
    place->asked_at = now;
    place->problem = problem;
    place->askers.Note(asker);
    std::rotate(place, place + 1, entries_.end());
    return entries_.back();
  }
  if (place == entries_.end() && entries_.size() >= most_) {
    place = ChooseEvicted(entries_, asker, [&](const Entry& entry) {
      return entry.served || now - entry.asked_at > kReportPatience;
    });
    if (place == entries_.end()) return std::nullopt;
  }
  if (place != entries_.end()) {
    evicted = std::move(*place);
    entries_.erase(place);
  }
  entries_.push_back(
      {name, {}, problem, std::make_shared<ReportMaker>(run, make_), std::move(sources), now});
  entries_.back().askers.Note(asker);
  return entries_.back();
}

void Reports::NoteGiven(const std::shared_ptr<ReportMaker>& maker) {
  MutexLock lock(&mutex_);
  for (Entry& entry : entries_) {
    if (entry.maker != maker) continue;
    entry.served = true;
    std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.run == entry.run; });
  }
}

http::Page Reports::Answer(const std::string& name, const std::shared_ptr<const LoadedRun>& run,
                           Making making, const StoredReport& stored, const std::string& asker) {
  if (const std::string why = WhyNotMade(*run, making); !why.empty() && !Has(name, *run))
    return StatePage(name, "none", stored.problem, {{"why", why}});
  std::optional<Entry> found = TryEntryOf(name, run, stored.problem, asker);
  if (!found) {
    std::this_thread::sleep_for(kReportWait);
    found = TryEntryOf(name, run, stored.problem, asker);
  }
  if (!found) {
    NoteProblem(name, stored.problem);
    return StatePage(name, "computing", stored.problem,
                     {{"done", 0}, {"total", run->workers.size()}});
  }
  const Entry& entry = *found;
  const absl::StatusOr<std::string> text = entry.maker->Get(kReportWait);
  if (text.ok() && text->empty())
    return StatePage(name, "computing", entry.problem,
                     {{"done", entry.maker->done()}, {"total", entry.maker->total()}});
  const absl::StatusOr<Json> report =
      text.ok() ? ReadReport(*text) : absl::StatusOr<Json>(text.status());
  if (report.ok()) {
    NoteGiven(entry.maker);
    return WithReport(name, "computed", entry.problem, *report);
  }
  {
    MutexLock lock(&mutex_);
    std::erase_if(entries_, [&](const Entry& known) { return known.maker == entry.maker; });
  }
  return StatePage(name, "none", entry.problem, {{"why", MessageOf(report.status())}});
}

}  // namespace strobe::viewer
