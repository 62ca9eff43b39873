// A run in the form in which XProf's own trace viewer page asks for it, so that the page works
// against this server. The form is that of openxla/xprof: trace_events_to_json.h and
// trace_view_options.cc.
#pragma once
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "common/http/query.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// The longest answer, about a million events: a browser reads it as one string.
inline constexpr std::size_t kMaxXprofBytes = std::size_t{128} << 20;

// Writes the JSON of `/data?tag=trace_viewer@`: all events that the query asks for, or one event's
// details.
//   host, hosts                    the workers, separated by commas; ALL_HOSTS for all
//   start_time_ms, end_time_ms     the window; 0 = from the first or to the last event
//   resolution                     bins of the window; 0 = every event. Of several events in a bin
//                                  only the longest is told, as in XProf.
//   search_prefix                  only events with this text in their names
//   event_name, unique_id          the details of one event, by the uid that it was told with
// Events that do not fit into `max_bytes` are left out, those of the last rows first, and counted
// as "leftOutEventsSize", beside XProf's "returnedEventsSize"; "filteredByVisibility" is true then.
// NotFound when no worker has the host's name, InvalidArgument for a number that is none; otherwise
// the sink's error, after which little is done.
absl::Status WriteXprofData(const LoadedRun& run, const http::Query& query,
                            const convert::Sink& sink, std::size_t max_bytes = kMaxXprofBytes);

// JSON of `/hosts`: the workers' names.
std::string XprofHosts(const LoadedRun& run);

}  // namespace strobe::viewer
