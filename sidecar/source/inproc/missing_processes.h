// Tells of processes of a worker that were not recorded. Pure.
#pragma once
#include <vector>

#include "sidecar/capture/ports.h"
#include "sidecar/source/agent/process_files.h"
#include "sidecar/source/base/announcements.h"

namespace strobe::source {

// The processes of a worker, as far as they told anything.
struct WorkerProcesses {
  std::vector<Announcement> announced{};
  // Processes that run, did not announce themselves, and reported why.
  std::vector<FailedStart> failed{};
};

// Leaves in `failed` only processes that run and are not among `announced`.
std::vector<FailedStart> LivingAndUnannounced(std::vector<FailedStart> failed,
                                              const std::vector<Announcement>& announced);

inline constexpr std::size_t kMaxLeftOutRows = 8;

// Adds what is missing, unless the capture was cancelled:
//   * A recording without a trace, as WorkerMissing, for each local rank that the plan asks for and
//     nobody has, if the launcher told its processes how many it started (LOCAL_WORLD_SIZE). Only
//     in containers: several sidecars of one machine may share its processes.
//   * A row for each process that announced itself and is left out because it shows no sign of
//   being
//     a worker, with the reason; at most kMaxLeftOutRows. Not if the plan asks for certain ranks.
//   * A row for each process in `failed`. Where the agent or the program's own profiler server
//     records the process all the same, the reason is only a note.
void AddMissingProcesses(const v1::CapturePlan& plan, const WorkerProcesses& processes,
                         std::vector<session::Recording>& recordings);

}  // namespace strobe::source
