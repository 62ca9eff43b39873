// What `strobe fleet` decides and tells: whose a run is, whether it has to be done, and how it
// ended. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/store/object_store.h"

namespace strobe::cli {

// The share of the runs that one process takes: the share `index` of `of`.
struct FleetShare {
  std::uint32_t index = 0, of = 1;
};
// A run's share depends on its name alone, so that further runs move none to another process.
bool IsOfShare(const FleetShare& share, std::string_view run);

// Whether this object is a trace.
bool IsFleetTrace(const storage::StoredObject& object);
// Whether the error means that traces are damaged, so that trying again does not help.
bool IsHopeless(const absl::Status& status);

// Identifies what a run's tables are made from: its traces, each with size and version, and whether
// the table `stats` is made. Two identities differ if any of these differ. Objects that are no
// traces do not count.
std::string FleetIdentity(std::vector<storage::StoredObject> objects, bool stats);

enum class FleetState : std::uint8_t {
  kDone,    // Its tables and its report are complete.
  kEmpty,   // It has no traces.
  kFailed,  // `problem` tells why. It has no tables.
};
std::string_view NameOf(FleetState state);

// A row of the table `runs`. It is written after everything else of the run, so that a run with the
// state kDone is complete.
struct FleetRun {
  std::string run{}, identity{};
  FleetState state = FleetState::kDone;
  std::uint64_t workers = 0, events = 0;
  std::uint64_t trace_bytes = 0, table_bytes = 0;
  double seconds = 0;      // Time that the work took.
  std::string headline{};  // What its report says first.
  std::string problem{};
};

// One line of JSON.
std::string FleetRunJson(const FleetRun& run);
// InvalidArgument if it is no row of this version.
absl::StatusOr<FleetRun> ReadFleetRun(std::string_view json);

// Keys in the destination. The row's name does not depend on the run's content, and the tables have
// the names that strobe convert gives them.
std::string FleetRowKey(std::string_view run);     // "runs/run=<run>/run.json"
std::string FleetReportKey(std::string_view run);  // "reports/run=<run>/report.json"
// The prefixes under which a run's tables and its report are: "events/run=<run>/", ...
std::vector<std::string> FleetPrefixes(std::string_view run);

// "2 workers, 1200 events, 48.2 MB of traces, 3.4 s: <headline>", or why it failed.
std::string FleetRunText(const FleetRun& run);
// How many ended how, and a table of those that failed.
std::string FleetSummary(const std::vector<FleetRun>& runs, std::size_t done_before);

}  // namespace strobe::cli
