#include "sidecar/capture/worker_reports.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/base/strings.h"
#include "sidecar/capture/trace_file.h"

namespace strobe::session {
namespace {

Outcome OutcomeIn(const v1::Report& report) { return static_cast<Outcome>(report.outcome()); }

// The outcome of the worst worker, with the number of those that ended well.
void SummarizeOutcome(v1::Report& report) {
  const auto& workers = report.workers();
  const auto worst =
      std::max_element(workers.begin(), workers.end(), [](const auto& a, const auto& b) {
        return Describe(OutcomeIn(a)).badness < Describe(OutcomeIn(b)).badness;
      });
  const auto good = std::count_if(workers.begin(), workers.end(), [](const v1::Report& worker) {
    return OutcomeIn(worker) == Outcome::kOk;
  });
  if (good == workers.size()) return SetOutcome(Outcome::kOk, "", report);
  SetOutcome(
      OutcomeIn(*worst),
      StrCat(good, " of ", workers.size(), " workers of the pod were recorded as requested; ",
             worst->plan().worker(), ": ", worst->message()),
      report);
}

// True if nothing that happens after the recording changes the worker's outcome: its trace is
// stored, or it has none to store.
bool HasResult(const v1::Report& worker) {
  const bool has_trace = worker.bytes() > 0;
  return has_trace ? !worker.url().empty() : worker.outcome() != v1::OUTCOME_UNSPECIFIED;
}

template <typename Report>
auto TraceReportsOf(Report& report, auto& workers) {
  std::vector<Report*> reports;
  for (Report& worker : workers) reports.push_back(&worker);
  if (reports.empty()) reports.push_back(&report);
  return reports;
}

}  // namespace

void SplitReport(std::span<const Recording> recordings, v1::Report& report) {
  const v1::CapturePlan& plan = report.plan();
  // A worker that the plan chose by its rank has the same name as in a capture of all workers.
  const bool chosen = recordings.front().rank && (plan.ranks_size() + plan.local_ranks_size() > 0);
  if (recordings.size() == 1 && !chosen) {
    if (recordings.front().rank) *report.mutable_rank() = *recordings.front().rank;
    return;
  }
  for (const Recording& recording : recordings) {
    v1::Report& worker = *report.add_workers();
    worker.set_capture_id(report.capture_id());
    *worker.mutable_plan() = report.plan();
    *worker.mutable_rank() = *recording.rank;
    worker.mutable_plan()->set_worker(
        StrCat(report.plan().worker(), ".", recording.rank->local_rank()));
  }
}

std::vector<v1::Report*> TraceReports(v1::Report& report) {
  return TraceReportsOf(report, *report.mutable_workers());
}
std::vector<const v1::Report*> TraceReports(const v1::Report& report) {
  return TraceReportsOf(report, report.workers());
}

void EndUndelivered(Outcome outcome, std::string_view message, v1::Report& report) {
  SetOutcome(outcome, message, report);
  report.set_state(v1::DONE);
  for (v1::Report& worker : *report.mutable_workers()) {
    if (!HasResult(worker)) SetOutcome(outcome, message, worker);
    worker.set_state(v1::DONE);
  }
}

void Summarize(v1::Report& report) {
  if (report.workers().empty()) return;
  std::int64_t started = 0, stopped = 0;
  std::uint64_t bytes = 0, events = 0;
  std::optional<std::int64_t> reached_back;
  bool covers_window = true;
  for (const v1::Report& worker : report.workers()) {
    started = std::max(started, worker.started_ns());
    if (worker.stopped_ns() != 0)
      stopped = stopped == 0 ? worker.stopped_ns() : std::min(stopped, worker.stopped_ns());
    if (worker.has_reached_back_ns())
      reached_back =
          std::min(reached_back.value_or(worker.reached_back_ns()), worker.reached_back_ns());
    bytes += worker.bytes();
    events += worker.events();
    covers_window = covers_window && worker.covers_window();
  }
  report.set_started_ns(started);
  report.set_stopped_ns(stopped);
  report.set_bytes(bytes);
  report.set_events(events);
  if (reached_back) report.set_reached_back_ns(*reached_back);
  report.set_covers_window(covers_window);
  const auto uploaded =
      std::find_if(report.workers().begin(), report.workers().end(),
                   [](const v1::Report& worker) { return !worker.url().empty(); });
  if (uploaded != report.workers().end()) report.set_url(uploaded->url());
  SummarizeOutcome(report);
}

}  // namespace strobe::session
