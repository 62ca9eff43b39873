#include "sidecar/capture/trace_delivery.h"

#include <algorithm>
#include <utility>

#include "collector/store/retrying_store.h"
#include "common/base/strings.h"
#include "common/protocol/outcome.h"
#include "sidecar/capture/trace_file.h"
#include "sidecar/capture/trace_report.h"

namespace strobe::session {
namespace {

Outcome OutcomeOf(const absl::Status& upload) {
  switch (upload.code()) {
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return Outcome::kUploadDenied;
    case absl::StatusCode::kCancelled:
      return Outcome::kCancelled;
    default:
      return Outcome::kUploadFailed;
  }
}

}  // namespace

TraceUrls DeliverTraces(std::vector<TracePieces> traces,
                        const std::vector<std::vector<Original>>& originals, LiveCapture& live,
                        const std::function<void()>& publish, v1::Report& report) {
  report.set_state(v1::UPLOADING);
  // The delivery compares the plans' deadline with the wall clock as it is now.
  v1::Report delivered = report;
  const Nanos set = live.steps().Since();
  *delivered.mutable_plan() = OnClockSetBy(set, report.plan());
  for (v1::Report& worker : *delivered.mutable_workers())
    *worker.mutable_plan() = OnClockSetBy(set, worker.plan());
  TraceUrls urls = live.delivery().Deliver(delivered, std::move(traces), live.cancel(), publish);
  const std::vector<const v1::Report*> delivered_reports = TraceReports(std::as_const(delivered));
  const std::vector<v1::Report*> reports = TraceReports(report);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const bool stored = urls[i].ok() && !urls[i]->empty();
    for (const Original& original : originals[i]) {
      ReportOriginal(
          original.process,
          stored ? live.delivery().DeliverOriginal(*delivered_reports[i], original, live.cancel())
                 : absl::UnavailableError("the trace is not stored either"),
          *reports[i]);
    }
  }
  return urls;
}

bool IsComplete(const TraceUrls& urls) {
  return std::all_of(urls.begin(), urls.end(), [](const auto& url) { return url.ok(); });
}

void FillUrls(const TraceUrls& urls, std::string_view cancelled, v1::Report& report) {
  const std::vector<v1::Report*> reports = TraceReports(report);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (urls[i].ok()) {
      reports[i]->set_url(*urls[i]);  // MakeTraceFile has set the outcome.
      continue;
    }
    // The report keeps size and checksum. A later upload recognizes its own object by them, and a
    // user who finds the trace later can verify it.
    const Outcome outcome = OutcomeOf(urls[i].status());
    SetOutcome(
        outcome,
        outcome == Outcome::kCancelled ? std::string(cancelled) : MessageOf(urls[i].status()),
        *reports[i]);
    reports[i]->set_logdir_unusable(storage::WillFailAgain(urls[i].status()));
  }
  Summarize(report);
}

}  // namespace strobe::session
