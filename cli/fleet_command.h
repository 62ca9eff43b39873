// `strobe fleet`: tables and reports of all runs of a logdir, here or by a Job.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "cli/cluster/fleet_job.h"
#include "cli/fleet_plan.h"

namespace strobe {

struct FleetFlags {
  std::string place{}, out{}, to = "parquet", storage_config{}, scratch{};
  bool no_stats = false, quiet = false;
  FleetShare share{};
  cluster::FleetJobOptions job{};
};

void AddFleetFlags(CLI::App& command, FleetFlags& flags);
// Returns the exit code: kExitFailed if trying again may help, kExitBadRuns if it does not.
int RunFleet(const FleetFlags& flags);

}  // namespace strobe
