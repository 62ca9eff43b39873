// The run as XProf's own trace viewer page asks for it (shape: openxla/xprof,
// trace_events_to_json.h and trace_view_options.cc), so that the page works against this server.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "common/http/query.h"
#include "viewer/loaded_run.h"

namespace strobe::viewer {

// JSON of `/data?tag=trace_viewer@`. Heeds `host`, `hosts` (ALL_HOSTS), `resolution`,
// `start_time_ms`, `end_time_ms`, `search_prefix`, and `event_name` with `start_time_ms` and
// `duration_ms` for the details of one event. Where a bin holds several events the longest stands
// for them, as with XProf; resolution 0 gives all.
absl::StatusOr<std::string> XprofData(const LoadedRun& run, const Query& query);

// JSON of `/hosts`.
std::string XprofHosts(const LoadedRun& run);

}  // namespace strobe::viewer
