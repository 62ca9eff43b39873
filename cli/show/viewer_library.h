// What `strobe view` shows: a file, a folder with traces, or the runs of logdirs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/cancellation.h"
#include "viewer/run/library.h"

namespace strobe::cli {

struct LibraryOptions {
  std::string storage_config{};
  std::string cache{};  // The folder that keeps the list of runs; empty = it stays in memory.
  const Cancellation* cancellation = nullptr;  // Ends requests to stores; outlives the library.
};

// A logdir that is served to many people, who may not all see it.
struct ServedLocation {
  std::string name{};  // Stands before the names of its runs: "NAME/RUN".
  std::string url{};
};

// `places`: one file, folder, run or logdir, or several logdirs. InvalidArgument and NotFound tell
// what to give instead.
absl::StatusOr<std::unique_ptr<viewer::Library>> OpenLibrary(
    const std::vector<std::string>& locations, const LibraryOptions& options);

// The runs of all logdirs; listing them begins at once. A logdir that cannot be listed causes no
// error here. Files are read through the store, so that links in a logdir show nothing.
absl::StatusOr<std::unique_ptr<viewer::Library>> OpenServed(
    const std::vector<ServedLocation>& locations, const LibraryOptions& options);

}  // namespace strobe::cli
