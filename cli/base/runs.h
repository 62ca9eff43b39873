// Lists and describes the runs of a logdir, by their manifests and objects.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/store/object_store.h"
#include "strobe/v1/manifest.pb.h"

namespace strobe::cli {

// A logdir, or one of its runs.
struct RunLocation {
  storage::Logdir logdir{};
  std::string run{};  // Empty when the text names the logdir.
};
// Accepts what Logdir::Parse accepts, and the URL of a run, which users copy from a request's
// status. InvalidArgument says what to write.
absl::StatusOr<RunLocation> ParseRunLocation(const std::string& text);

struct RunSummary {
  std::string run{};
  std::optional<v1::Manifest> manifest{};  // nullopt for runs that other tools wrote.
  std::size_t workers = 0;                 // Without a manifest: how many traces there are.
  std::uint64_t bytes = 0;  // Without a manifest: of all objects; else of the traces.
  std::string headline{};   // What its report says first; only ReadRuns reads it.
  std::string problem{};    // Why the run or its manifest could not be read.
  bool empty = false;       // There is no file in its folder: it is no run.
};

// The names of all folders of runs. The newest one is first, because names begin with their time.
// A folder without files, which a console or a mounted bucket made, is no run; only FirstRuns
// leaves it out, because that takes a request for each.
absl::StatusOr<std::vector<std::string>> ListRuns(storage::ObjectStore& store);
// Returns the first `most` of the folders that have files, or that the store does not list.
std::vector<std::string> FirstRuns(storage::ObjectStore& store,
                                   const std::vector<std::string>& folders, std::size_t most);
// Reads the manifest of a run or, without a readable one, lists its objects. A failure becomes the
// summary's problem.
RunSummary ReadRun(storage::ObjectStore& store, const std::string& run);
// Like ReadRun, for many runs at a time, in their order.
std::vector<RunSummary> ReadRuns(storage::ObjectStore& store, const std::vector<std::string>& runs);

// A line for each run.
std::string RunsTable(const std::vector<RunSummary>& runs);
std::string RunsJson(const storage::Logdir& logdir, const std::vector<RunSummary>& runs);
// One object of a logdir, on one line.
std::string ObjectJson(const storage::StoredObject& object);
// A line for each worker of one run, and one for each of its objects.
std::string RunTable(const RunSummary& run, const std::vector<storage::StoredObject>& objects);

}  // namespace strobe::cli
