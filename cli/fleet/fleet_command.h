// `strobe fleet`: tables and reports of all runs of a logdir, here or by a Job.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "cli/fleet/fleet_plan.h"
#include "cli/kube/fleet_job.h"

namespace strobe::cli {

struct FleetFlags {
  std::string location{}, out{}, to = "parquet", storage_config{}, scratch{};
  bool no_stats = false, quiet = false;
  FleetShare share{};
  cluster::FleetJobOptions job{};
};

void AddFleetFlags(CLI::App& command, FleetFlags& flags);
// Returns the exit code: kExitFailed if trying again may help, kExitBadRuns if it does not.
int RunFleet(const FleetFlags& flags);

}  // namespace strobe::cli
