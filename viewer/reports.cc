#include "viewer/reports.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "common/base/strings.h"
#include "viewer/report_page.h"
#include "viewer/run_api.h"
#include "viewer/stored_report.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;

// The page repeats its request, so that it can show progress.
constexpr Nanos kReportWait = std::chrono::milliseconds(200);

Page StatePage(std::string_view run, std::string_view state, std::string_view problem,
               const Json& more) {
  Json page = {{"run", run}, {"state", state}, {"problem", problem}, {"report", nullptr}};
  page.update(more);
  return JsonPage(page);
}

Page WithReport(std::string_view run, std::string_view state, std::string_view problem,
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

}  // namespace

bool IsCheap(const LoadedRun& run) {
  return run.events <= kCheapEvents && run.workers.size() > 1 &&
         std::none_of(run.workers.begin(), run.workers.end(), [](const Worker& worker) {
           return std::holds_alternative<FetchedMemory>(worker.trace.content);
         });
}

absl::StatusOr<Making> MakingOf(const std::string& text) {
  if (text.empty()) return Making::kNever;
  if (text == "cheap") return Making::kIfCheap;
  if (text == "always") return Making::kAlways;
  return absl::InvalidArgumentError("make: write cheap or always");
}

Page StoredReportPage(const std::string& run, const StoredReport& stored) {
  if (stored.report.is_null())
    return StatePage(run, "none", stored.problem, {{"why", "no report is stored with the run"}});
  return WithReport(run, "stored", "", stored.report);
}

Page LoadingReportPage(const std::string& run, const StoredReport& stored) {
  return StatePage(run, "loading", stored.problem, Json::object());
}

bool Reports::Knows(const std::string& run) {
  MutexLock lock(&mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.run == run; });
}

Reports::Entry Reports::EntryOf(const std::string& name,
                                const std::shared_ptr<const LoadedRun>& run,
                                const std::string& problem) {
  Entry evicted;  // Declared before the lock: its destructor waits for a thread.
  MutexLock lock(&mutex_);
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.run == name; });
  if (known != entries_.end()) return *known;
  if (entries_.size() >= most_) {
    evicted = std::move(entries_.front());
    entries_.erase(entries_.begin());
  }
  entries_.push_back({name, problem, std::make_shared<ReportMaker>(run)});
  return entries_.back();
}

Page Reports::Answer(const std::string& name, const std::shared_ptr<const LoadedRun>& run,
                     Making making, const StoredReport& stored) {
  if (const std::string why = WhyNotMade(*run, making); !why.empty() && !Knows(name))
    return StatePage(name, "none", stored.problem, {{"why", why}});
  const Entry entry = EntryOf(name, run, stored.problem);
  const absl::StatusOr<std::string> text = entry.maker->Get(kReportWait);
  if (text.ok() && text->empty())
    return StatePage(name, "computing", entry.problem,
                     {{"done", entry.maker->done()}, {"total", entry.maker->total()}});
  const absl::StatusOr<Json> report =
      text.ok() ? ReadReport(*text) : absl::StatusOr<Json>(text.status());
  if (report.ok()) return WithReport(name, "computed", entry.problem, *report);
  {
    MutexLock lock(&mutex_);
    std::erase_if(entries_, [&](const Entry& known) { return known.maker == entry.maker; });
  }
  return StatePage(name, "none", entry.problem, {{"why", MessageOf(report.status())}});
}

}  // namespace strobe::viewer
