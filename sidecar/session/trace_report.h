// What a trace adds to a capture's report, and what the report adds to the trace.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "collector/xplane/summary.h"
#include "common/base/clock.h"
#include "sidecar/session/ports.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// Start, stop, events, plane names (at most 32) and the trace's own complaints (at most 8).
void FillFromTrace(const xplane::TraceSummary& trace, v1::Report& report);

// A row per process, worst first; see Report.processes for the bounds.
void FillProcesses(std::vector<v1::ProcessReport> processes, v1::Report& report);

// The `Strobe` plane: capture id, instant, window, guard, clock offset and error, so that the file
// can be aligned with its siblings without the manifest; and what it was judged to be. Its times
// are on the clock that the trace itself is on: the report's, and set by `clock_set` since.
std::string EncodeStrobePlane(const v1::Report& report, Nanos clock_set = Nanos{0});

// For wall clocks that are set between arming and the end. A report's times are those of the clock
// as it was when the capture was armed, because the plan's are, and the measured clock offset.
v1::CapturePlan OnClockSetBy(Nanos set, v1::CapturePlan plan);
void MoveTimes(Nanos by, v1::ProcessReport& process);
void CorrectTimes(const Recording& recording, xplane::TraceSummary& trace);
// A note for people, where the clock was set.
void TellOfClock(const Recording& recording, v1::Report& report);

// More than that plane ever has, also with a row for each of the most processes that are told of
// and all their text escaped. It is the last thing in a file.
inline constexpr std::size_t kMaxStrobePlaneBytes = 512 << 10;
// The capture that a trace is of, by the Strobe plane at the end of its bytes; empty when it does
// not end with one.
std::string CaptureOfTail(std::string_view tail);

}  // namespace strobe::session
