// The reports of a capture whose sidecar has several workers: one for each local rank. Pure.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "common/protocol/outcome.h"
#include "sidecar/capture/ports.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

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
