// Transfers facts between a trace and its capture's report. A capture whose sidecar has several
// workers, one for each local rank, has a report for each of them.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/xplane/summary.h"
#include "common/base/clock.h"
#include "common/base/clock_steps.h"
#include "common/protocol/outcome.h"
#include "sidecar/capture/ports.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// Fills start, stop, events, plane names (at most 32) and the trace's own errors and warnings (at
// most 8).
void FillFromTrace(const xplane::TraceSummary& trace, v1::Report& report);

// Adds a row per process, worst first; see Report.processes for the limits.
void FillProcesses(std::vector<v1::ProcessReport> processes, v1::Report& report);

// Encodes the `Strobe` plane: capture id, instant, window, guard, clock offset and error, so that
// the file can be aligned with other workers' files without the manifest, and the outcome.
// `clock_set` is how far the wall clock was set since arming; the plane's times are moved by it, to
// match the trace's own times.
std::string EncodeStrobePlane(const v1::Report& report, Nanos clock_set = Nanos{0});

// Counts the wall clock's steps since the plan's reading of the clocks, or from now on if it has
// none.
ClockSteps StepsSince(const Clock& clock, const v1::CapturePlan& plan);

// The following functions correct times if the wall clock was set after arming. A report's times
// always refer to the clock as it was at arming, as do the plan and the measured clock offset.
// Returns the plan with absolute times, and the reading of the clocks that they refer to, on a
// clock that was set by `set`.
v1::CapturePlan OnClockSetBy(Nanos set, v1::CapturePlan plan);
// Moves the times that are known.
void MoveTimes(Nanos by, v1::ProcessReport& process);
void MoveTimes(Nanos by, v1::StepPace& pace);
// Converts the trace's times to the clock as it was at arming.
void CorrectTimes(const Recording& recording, xplane::TraceSummary& trace);
// Adds a note if the plan asks for options that only PyTorch's profiler has, and no
// process of the worker is recorded by it.
void ReportMissingOptions(const Recording& recording, v1::Report& report);
// Enters the name of a kept file, or the reason why there is none, into the row of its process.
void ReportOriginal(std::string_view process, const absl::StatusOr<std::string>& name,
                    v1::Report& report);
// Fills reached_back_ns from the recording's processes if the plan asks for it.
void FillReachedBack(const Recording& recording, v1::Report& report);
// Adds a note if the clock was set.
void ReportClock(const Recording& recording, v1::Report& report);

// An upper limit on the size of that plane, with a row for the maximal number of processes and all
// text escaped. It is the last part of a file.
inline constexpr std::size_t kMaxStrobePlaneBytes = 512 << 10;
// The capture id in the Strobe plane at the end of a file's bytes. Empty if the bytes do not end
// with such a plane.
std::string CaptureOfTail(std::string_view tail);

// Adds a report for each recording, if there are several or the plan asks for certain ranks; see
// Report.workers. Otherwise the recording only tells its rank. `recordings` is not empty.
void SplitReport(std::span<const Recording> recordings, v1::Report& report);

// The reports that have a trace file each: those of the workers, or else the report itself.
std::vector<v1::Report*> TraceReports(v1::Report& report);
std::vector<const v1::Report*> TraceReports(const v1::Report& report);

// Ends a capture that was cancelled, or whose sidecar failed, with this outcome. Workers whose
// trace is stored, and workers that recorded no trace for a reason of their own, keep their
// outcomes.
void EndUndelivered(Outcome outcome, std::string_view message, v1::Report& report);

// Sets the fields that summarize the workers, if there are any.
void Summarize(v1::Report& report);

}  // namespace strobe::session
