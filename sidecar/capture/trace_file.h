// Turns a finished recording into the trace file to deliver, with the steps that it completed.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/analysis/judge.h"
#include "common/protocol/outcome.h"
#include "sidecar/capture/ports.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// Sets the report's outcome and message. The message is made valid UTF-8 and limited in length.
void SetOutcome(Outcome outcome, std::string_view message, v1::Report& report);

// Adds the reports of several workers, and fills in what the recordings tell apart from their
// traces: dropped events, processes, and notes about the clock. Takes the recordings' processes.
void FillFromRecordings(std::vector<Recording>& recordings, v1::Report& report);

// Makes the file of each recording, in the order of TraceReports; see MakeTraceFile.
std::vector<TracePieces> MakeTraceFiles(std::vector<Recording> recordings, v1::Report& report);

// Judges the recorded trace and fills the report's outcome, message and facts of the trace. Returns
// the content of the file in pieces, to be written one after the other. Returns no pieces if there
// is nothing to deliver: the source recorded nothing, or the trace is invalid, too large, or late
// although the plan asks to discard late traces. The report's outcome is then final.
TracePieces MakeTraceFile(Recording recording, v1::Report& report);

// Fills report.steps from the trace; needs report.stopped_ns. If the plan counts steps, its window
// becomes the time of the complete ones. DataLoss if the trace is damaged.
absl::Status FillSteps(const Recording& recording, v1::Report& report);

// Adds to `judged`, the judgement of the trace without a window, what report.steps says about the
// plan's steps. Pure.
analysis::Judgement JudgeSteps(const v1::Report& report, analysis::Judgement judged);

}  // namespace strobe::session
