// The rows of a worker's processes, for people and for programs.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/xplane/space.h"
#include "common/base/outcome.h"
#include "strobe/v1/worker.pb.h"

namespace strobe {

struct Processes {
  std::vector<v1::ProcessReport> rows{};
  std::uint64_t left_out = 0;
};

// From a report or a manifest's worker.
template <typename Message>
Processes ProcessesOf(const Message& message) {
  return {{message.processes().begin(), message.processes().end()}, message.processes_left_out()};
}
// From the trace itself; none when it came from elsewhere. DataLoss when they cannot be read.
absl::StatusOr<Processes> ProcessesOf(const xplane::Space& space);

// Is there more to see than the worker's own outcome tells?
bool WorthShowing(const Processes& processes, Outcome worker);
// A line per process: source, outcome, when its recording began after the first one's and for how
// long it went on, events, message.
std::string ProcessTable(const Processes& processes);
nlohmann::ordered_json ProcessesJson(const Processes& processes);

}  // namespace strobe
