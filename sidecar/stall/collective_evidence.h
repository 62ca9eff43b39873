// What a program told of its collectives, for the verdict on a job that stands still: the newest
// calls of each communicator. It is read from memory that outlives the program, so that a process
// that is frozen or dead tells as much as one that runs.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "agent/wire/collective_file.h"
#include "agent/wire/ticks.h"
#include "sidecar/stall/evidence_processes.h"

namespace strobe::stall {

// As collector/stall/collective_record.h reads it. `now`: ticks and CLOCK_MONOTONIC at a moment
// after the file was made. Empty if the program has no communicator.
std::string CollectiveEvidence(const wire::CollectiveFile& file, const wire::TickMoment& now,
                               std::int64_t wall_minus_monotonic_ns);

// That of all programs which tell their collectives in this directory, by rank. Programs that do
// not know their rank have that of the process with their number; others are left out.
std::map<int, std::string> ReadCollectiveEvidence(const std::string& directory,
                                                  const std::map<int, EvidenceProcess>& processes,
                                                  std::int64_t wall_minus_monotonic_ns);

}  // namespace strobe::stall
