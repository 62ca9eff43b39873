// Opens the traces that a command reads.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/base/open_location.h"
#include "cli/base/trace_json.h"
#include "collector/trace/convert/align.h"
#include "common/base/cancellation.h"
#include "common/memory/fetched_memory.h"
#include "strobe/v1/manifest.pb.h"

namespace strobe::cli {

// How traces in object stores are read.
struct TraceReading {
  // Bounds the memory of all traces that share it; null = a pool for the traces of this call.
  std::shared_ptr<FetchPool> pool{};
  const Cancellation* cancellation = nullptr;  // Ends reading; outlives the traces.
  // Read the runs of file:// logdirs through the store, as those of other logdirs, instead of
  // mapping their files. No symbolic link is followed then: with a link, somebody who may write to
  // one logdir could show another logdir's traces.
  bool files_through_store = false;
  // A folder that keeps the conversions of local JSON files; empty = they are not kept.
  std::string cache{};
  // Bounds the conversions of JSON; null = they are not bounded, because their user pays for them.
  std::shared_ptr<JsonConversions> json{};
};

// Opens the trace or traces at `place`: a .xplane.pb file, a trace in Chrome's JSON format (.json
// or .json.gz), a folder with such files (*.trace.json), a run, or a logdir, of which the newest
// run is opened. The result is sorted by worker and not empty. InvalidArgument and NotFound tell
// what to give instead. XSpaces in a store are fetched where they are read; JSON is converted at
// once. What is damaged among several traces is returned with its `damage`.
absl::StatusOr<std::vector<convert::OpenTrace>> OpenTraces(const std::string& place,
                                                           const std::string& storage_config,
                                                           const TraceReading& reading = {});

// Tells the user on stderr which workers are left out.
void Warn(const std::vector<convert::LeftOut>& left_out);

// Whether the file is read as JSON, otherwise as an XSpace, by its first bytes. DataLoss if it is
// neither.
absl::StatusOr<bool> MayBeJson(const std::string& path);

// Whether this local folder directly contains traces.
bool HasTraces(const std::string& folder);

// A text that is another one after traces of the run were added, replaced or removed.
absl::StatusOr<std::string> StampOfTraces(storage::ObjectStore& store, const std::string& run);
// Like StampOfTraces(store, run), for a file or for the traces directly in a folder.
absl::StatusOr<std::string> StampOfTraces(const std::string& path);

// The name of the logdir's newest run. NotFound when there is none.
absl::StatusOr<std::string> NewestRun(const OpenLocation& open);

// The manifest of the run that OpenTraces would open. nullopt for a single file, for a run that
// another tool wrote, and when the manifest cannot be read.
std::optional<v1::Manifest> FindManifest(const std::string& place,
                                         const std::string& storage_config);

}  // namespace strobe::cli
