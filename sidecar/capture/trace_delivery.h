// Delivers the traces of a capture and enters what became of them into its report.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sidecar/capture/live_capture.h"
#include "sidecar/capture/ports.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// One URL for each of TraceReports; see Delivery::Deliver.
using TraceUrls = std::vector<absl::StatusOr<std::string>>;

// Delivers the traces, and then the originals of each trace. `publish` is called when the traces
// are safe and their upload begins.
TraceUrls DeliverTraces(std::vector<TracePieces> traces,
                        const std::vector<std::vector<Original>>& originals, LiveCapture& live,
                        const std::function<void()>& publish, v1::Report& report);

// True if each trace is stored, or there was none to store.
bool IsComplete(const TraceUrls& urls);

// Enters the URLs, or why a trace has none, and summarizes the workers. `cancelled` is the message
// of traces whose delivery was cancelled.
void FillUrls(const TraceUrls& urls, std::string_view cancelled, v1::Report& report);

}  // namespace strobe::session
