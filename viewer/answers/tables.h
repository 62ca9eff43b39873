// The tables of a run: what ran, by name, on one worker or on all of them.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// The names of the tables, for messages: "kernels, operators, ...".
std::string TableNames();

// JSON {table, worker, rows, leftOut, devicePs, joinsLaunches}. `worker` is null for all of them;
// rows then have `workers`, how many have the row, and `odd`, the one that is far from the others:
// {worker, totalPs, medianPs}. What is not known is null. Times are picoseconds. Rows have:
//   kernels        name, kind, count, totalPs, selfPs, maxPs, grid, block, registers, sharedBytes,
//                  occupancy, tensorCores, launchesDiffer, launchedBy, launchersDiffer; of
//                  operations of XLA category, flops, accessedBytes
//   operators, modules
//                  name, kind, count, totalPs, selfPs, maxPs, shapes, shapesDiffer, devicePs,
//                  deviceSelfPs
//   communication  name, kind, group, ranks, count, totalPs, selfPs, maxPs, bytes,
//                  algorithmBytesPerS, busBytesPerS, exposedPs
//   steps          name, number, beginPs, totalPs and the parts of the report's breakdown; for all
//                  workers totalPs is the mean, and maxPs the longest
//   memory         worker, plane, counter, values, peak, peakAtPs, first, last; for one worker also
//                  points and alive, what was allocated at the peak
// NotFound for another name, or a worker that the run does not have. Traces are read for the first
// answer, which the run keeps. DataLoss when one is damaged. `is_gone`, which may be null, is asked
// now and then: once it is true, Cancelled.
absl::StatusOr<std::string> TableOf(const LoadedRun& run, std::string_view table,
                                    std::optional<std::uint32_t> worker,
                                    const std::function<bool()>& is_gone = nullptr);

}  // namespace strobe::viewer
