#include "sidecar/session/trace_file.h"

#include <utility>

#include "absl/status/statusor.h"
#include "collector/analysis/judge.h"
#include "collector/xplane/summary.h"
#include "common/base/clock.h"
#include "common/base/sha256.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"
#include "sidecar/session/session.h"
#include "sidecar/session/step_report.h"
#include "sidecar/session/trace_report.h"

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

std::vector<std::string> MakeTraceFile(Recording recording, v1::Report& report) {
  const auto nothing = [&](Outcome outcome, std::string_view message) {
    SetOutcome(outcome, message, report);
    return std::vector<std::string>();
  };
  if (recording.xspace.empty()) return nothing(recording.outcome, recording.message);
  absl::StatusOr<xplane::TraceSummary> summary = xplane::Summarize(recording.xspace);
  if (!summary.ok()) {
    return nothing(
        Outcome::kProfilerStartFailed,
        StrCat("the source did not answer with a valid trace: ", summary.status().message()));
  }
  CorrectTimes(recording, *summary);
  FillFromTrace(*summary, report);
  if (const absl::Status steps = FillSteps(recording, report); !steps.ok())
    return nothing(Outcome::kProfilerStartFailed,
                   StrCat("the trace's steps cannot be read: ", steps.message()));
  const v1::CapturePlan& plan = report.plan();
  Asked asked{.window = Window{FromUnixNanos(plan.instant_ns()), Nanos{plan.duration_ns()}},
              .expects_device = plan.expects_device(),
              .host_level = plan.tracers().host()};
  if (plan.steps() > 0) asked.window.reset();
  Judgement judged = JudgeTrace(*summary, asked);
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
    return nothing(Outcome::kLateStart, StrCat(why, "; discarded as asked"));
  }
  std::vector<std::string> pieces;
  pieces.push_back(std::move(recording.xspace));
  pieces.push_back(std::move(plane));
  Sha256 hash;
  for (const std::string& piece : pieces) {
    hash.Update(piece);
    report.set_bytes(report.bytes() + piece.size());
  }
  report.set_sha256(hash.Hex());
  return pieces;
}

}  // namespace strobe::session
