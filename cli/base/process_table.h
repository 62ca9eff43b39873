// Describes the processes of a worker, for people and for programs. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/xplane/space.h"
#include "common/protocol/outcome.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::cli {

struct Processes {
  std::vector<v1::ProcessReport> rows{};
  std::uint64_t left_out = 0;  // How many processes have no row, because there are too many.
};

// The processes in a worker's report or in its entry of the manifest.
template <typename Message>
Processes ProcessesOf(const Message& message) {
  return {{message.processes().begin(), message.processes().end()}, message.processes_left_out()};
}
// The processes that a trace's Strobe plane lists; empty for a trace of another tool. DataLoss when
// the list cannot be read.
absl::StatusOr<Processes> ProcessesOf(const xplane::Space& space);

// Whether the processes tell more than the worker's own outcome.
bool WorthShowing(const Processes& processes, Outcome worker);
// Whether a process said something about its recording: a note, or what stopping cost.
bool SaidMore(const Processes& processes);
// A line for each process: source, outcome, how long after the first one its recording began, how
// long it recorded, how long its profiler needed to stop, events, dropped events, and message and
// note.
std::string ProcessTable(const Processes& processes);
// Like ProcessTable, as a JSON array. Times are Unix times in ns; 0 = not known.
nlohmann::ordered_json ProcessesJson(const Processes& processes);

}  // namespace strobe::cli
