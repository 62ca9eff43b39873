// Converts one run for `strobe fleet`: its tables, its report, and its row in the table `runs`.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "cli/fleet/fleet_plan.h"
#include "common/base/cancellation.h"

namespace strobe::cli {

struct FleetLocations {
  std::string logdir{};  // As the user named it.
  storage::ObjectStore* from = nullptr;
  storage::ObjectStore* to = nullptr;
  // Opens the destination once more, for taking back what was written after a cancellation.
  std::function<absl::StatusOr<std::unique_ptr<storage::ObjectStore>>()> open_to_undo{};
  std::string storage_config{};
  std::string scratch{};  // A folder for the tables of one run, until they are complete.
};

struct FleetResult {
  FleetRun row{};
  bool done_before = false;
  // Why the run failed. IsHopeless tells whether trying again may help.
  absl::Status status = absl::OkStatus();
};

// Does nothing if the destination's row says that the same traces were done before. All tables are
// made in `scratch` first. What is uploaded becomes complete with the row, and is deleted again if
// that fails; a process that is killed in between leaves tables without a row, which the next one
// replaces. Cancelled soon after `stop` is set; nothing is left of the run's tables then.
FleetResult ConvertFleetRun(const FleetLocations& locations, const std::string& run, bool stats,
                            const Cancellation& stop);

}  // namespace strobe::cli
