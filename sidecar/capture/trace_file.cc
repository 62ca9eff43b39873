#include "sidecar/capture/trace_file.h"

#include <utility>

#include "absl/status/statusor.h"
#include "collector/trace/analysis/judge.h"
#include "collector/trace/xplane/summary.h"
#include "common/base/clock.h"
#include "common/base/sha256.h"
#include "common/base/strings.h"
#include "common/text/utf8.h"
#include "sidecar/capture/session.h"
#include "sidecar/capture/step_report.h"
#include "sidecar/capture/trace_report.h"
#include "sidecar/capture/worker_reports.h"

namespace strobe::session {
namespace {

constexpr std::size_t kMaxMessageBytes = 1024;

// True if the source's outcome explains the capture better than the judgement of its trace. That is
// so for an empty trace, and for outcomes that are at least as bad. A late trace or a missing
// device has causes of its own, which a mere loss of events must not hide.
bool Explains(Outcome source, Outcome judged) {
  if (source == Outcome::kOk) return judged == Outcome::kOk;
  const bool empty = judged == Outcome::kNoHostEvents || judged == Outcome::kNoDeviceActivity;
  return empty || Describe(source).badness >= Describe(judged).badness;
}

}  // namespace

void SetOutcome(Outcome outcome, std::string_view message, v1::Report& report) {
  report.set_outcome(static_cast<v1::Outcome>(outcome));
  report.set_message(CutUtf8(message, kMaxMessageBytes));
}

TracePieces MakeTraceFile(Recording recording, v1::Report& report) {
  const auto nothing = [&](Outcome outcome, std::string_view message) {
    SetOutcome(outcome, message, report);
    return TracePieces();
  };
  if (recording.xspace.empty()) return nothing(recording.outcome, recording.message);
  absl::StatusOr<xplane::TraceSummary> summary = xplane::Summarize(recording.xspace);
  if (!summary.ok()) {
    return nothing(Outcome::kProfilerStartFailed,
                   StrCat("the source did not return a valid trace: ", summary.status().message()));
  }
  CorrectTimes(recording, *summary);
  FillFromTrace(*summary, report);
  if (const absl::Status steps = FillSteps(recording, report); !steps.ok())
    return nothing(Outcome::kProfilerStartFailed,
                   StrCat("the trace's steps cannot be read: ", steps.message()));
  const v1::CapturePlan& plan = report.plan();
  analysis::Requested asked{
      .window = analysis::Window{FromUnixNanos(plan.instant_ns()), Nanos{plan.duration_ns()}},
      .expects_device = plan.expects_device(),
      .host_level = plan.tracers().host()};
  if (plan.steps() > 0) asked.window.reset();
  analysis::Judgement judged = analysis::JudgeTrace(*summary, asked);
  if (plan.steps() > 0) judged = JudgeSteps(report, std::move(judged));
  report.set_covers_window(judged.covers_window);
  if (Explains(recording.outcome, judged.outcome))
    SetOutcome(recording.outcome, recording.message, report);
  else
    SetOutcome(judged.outcome, judged.message, report);
  std::string plane = EncodeStrobePlane(report, recording.clock_set_at_start);
  if (const std::string why = TooLarge(plan, recording.xspace.size() + plane.size()); !why.empty())
    return nothing(Outcome::kTruncated, why);
  const bool late = judged.outcome == Outcome::kLateStart || report.outcome() == v1::LATE_START;
  if (plan.discard_late() && late) {
    const std::string why = report.outcome() == v1::LATE_START ? report.message() : judged.message;
    return nothing(Outcome::kLateStart, StrCat(why, "; discarded as requested"));
  }
  TracePieces pieces;
  pieces.push_back(std::make_shared<std::string>(std::move(recording.xspace)));
  pieces.push_back(std::make_shared<std::string>(std::move(plane)));
  Sha256 hash;
  for (const auto& piece : pieces) {
    hash.Update(*piece);
    report.set_bytes(report.bytes() + piece->size());
  }
  report.set_sha256(hash.Hex());
  return pieces;
}

void FillFromRecordings(std::vector<Recording>& recordings, v1::Report& report) {
  SplitReport(recordings, report);
  const std::vector<v1::Report*> reports = TraceReports(report);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    for (const auto& [reason, events] : recordings[i].dropped)
      (*reports[i]->mutable_dropped_events())[reason] = events;
    ReportClock(recordings[i], *reports[i]);
    ReportMissingOptions(recordings[i], *reports[i]);
    FillReachedBack(recordings[i], *reports[i]);
    FillProcesses(std::move(recordings[i].processes), *reports[i]);
  }
}

std::vector<TracePieces> MakeTraceFiles(std::vector<Recording> recordings, v1::Report& report) {
  const std::vector<v1::Report*> reports = TraceReports(report);
  std::vector<TracePieces> traces;
  for (std::size_t i = 0; i < reports.size(); ++i)
    traces.push_back(MakeTraceFile(std::move(recordings[i]), *reports[i]));
  Summarize(report);
  return traces;
}

}  // namespace strobe::session
