#include "sidecar/capture/trace_file.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/analysis/judge.h"
#include "collector/trace/analysis/steps.h"
#include "collector/trace/xplane/space.h"
#include "collector/trace/xplane/summary.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "sidecar/capture/session.h"
#include "sidecar/capture/step_progress.h"
#include "sidecar/capture/trace_report.h"

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

// Bounds the memory for a trace in which everything is a step.
constexpr std::size_t kMaxStepsRead = 1 << 20;
constexpr std::size_t kMaxLoopBytes = 256;

std::int64_t LastOf(const v1::CapturePlan& plan) { return plan.first_step() + plan.steps() - 1; }

std::optional<analysis::StepRun> RunOf(const std::vector<analysis::Step>& steps,
                                       const v1::CapturePlan& plan, std::size_t processes) {
  if (plan.steps() == 0) return analysis::LongestRun(steps, analysis::MainLoop(steps));
  return analysis::LongestRun(steps, plan.step_loop(), processes, plan.first_step(), LastOf(plan));
}

std::string Numbers(std::int64_t first, std::int64_t last) {
  return first == last ? StrCat("step ", first) : StrCat("steps ", first, " to ", last);
}

// Adds to a message that does not tell it how many events are missing besides.
void TellDropped(v1::Report& report) {
  std::uint64_t dropped = 0;
  for (const auto& [reason, events] : report.dropped_events()) dropped += events;
  if (dropped == 0 || report.outcome() == v1::OK || report.outcome() == v1::EVENTS_DROPPED) return;
  SetOutcome(static_cast<Outcome>(report.outcome()),
             StrCat(report.message(), "; ", dropped,
                    dropped == 1 ? " event was dropped besides" : " events were dropped besides"),
             report);
}

std::string WhyIncomplete(const v1::Report& report) {
  const v1::CapturePlan& plan = report.plan();
  const v1::RecordedSteps& steps = report.steps();
  const std::string asked = Numbers(plan.first_step(), LastOf(plan));
  if (!report.has_steps())
    return StrCat("none of ", asked, " of ", plan.step_loop(), " was recorded completely");
  const std::string_view why = steps.first() > plan.first_step()
                                   ? "recording began after the first one"
                                   : "recording ended before the last one";
  return StrCat("only ", Numbers(steps.first(), steps.last()), " of the requested ", asked, " of ",
                plan.step_loop(), steps.first() == steps.last() ? " was" : " were",
                " recorded completely: ", why);
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
  TellDropped(report);
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

absl::Status FillSteps(const Recording& recording, v1::Report& report) {
  ASSIGN_OR_RETURN(const xplane::Space space, xplane::Space::Read(recording.xspace));
  ASSIGN_OR_RETURN(std::vector<analysis::Step> steps, analysis::FindSteps(space, kMaxStepsRead));
  ASSIGN_OR_RETURN(const std::int64_t zero, xplane::TimeZero(space));
  const std::int64_t origin = zero - recording.clock_set_at_start.count();
  // PyTorch ends annotations that are open when it stops.
  if (report.stopped_ns() != 0) {
    std::erase_if(steps, [&](const analysis::Step& step) {
      return step.end_ps / 1000 > report.stopped_ns() - origin;
    });
  }
  v1::CapturePlan& plan = *report.mutable_plan();
  for (analysis::Step& step : steps) {
    if (plan.steps() > 0 && IsLoop(step.name, plan.step_loop())) step.name = plan.step_loop();
  }
  const std::optional<analysis::StepRun> run = RunOf(steps, plan, recording.stepping_processes);
  if (!run) return absl::OkStatus();
  v1::RecordedSteps& found = *report.mutable_steps();
  found.set_loop(CutUtf8(run->name, kMaxLoopBytes));
  found.set_first(run->first);
  found.set_last(run->last);
  found.set_began_ns(origin + run->begin_ps / 1000);
  found.set_ended_ns(origin + (run->end_ps + 999) / 1000);
  if (plan.steps() == 0) return absl::OkStatus();
  plan.set_instant_ns(found.began_ns());
  plan.set_duration_ns(found.ended_ns() - found.began_ns());
  if (recording.ended_early && run->first == plan.first_step())
    plan.set_steps(static_cast<std::uint32_t>(run->last - run->first + 1));
  return absl::OkStatus();
}

analysis::Judgement JudgeSteps(const v1::Report& report, analysis::Judgement judged) {
  const v1::CapturePlan& plan = report.plan();
  const v1::RecordedSteps& steps = report.steps();
  judged.covers_window =
      report.has_steps() && steps.first() == plan.first_step() && steps.last() == LastOf(plan);
  const int badness = Describe(judged.outcome).badness;
  if (judged.covers_window || badness > Describe(Outcome::kLateStart).badness) return judged;
  judged.outcome = Outcome::kLateStart;
  judged.message = WhyIncomplete(report);
  return judged;
}

}  // namespace strobe::session
