// The runs of a logdir, as their manifests and objects tell them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/logdir/object_store.h"
#include "strobe/v1/manifest.pb.h"

namespace strobe {

// A logdir, or one run of it: people paste the run's URL from a request's status.
struct RunPlace {
  Logdir logdir;
  std::string run{};  // Empty: the logdir.
};
absl::StatusOr<RunPlace> ParseRunPlace(const std::string& text);

struct RunSummary {
  std::string run{};
  std::optional<v1::Manifest> manifest{};  // Runs that other tools wrote have none.
  std::size_t workers = 0;                 // Traces, when there is no manifest.
  std::uint64_t bytes = 0;
  std::string problem{};  // Why it could not be read.
};

// Names, newest first (they begin with their time).
absl::StatusOr<std::vector<std::string>> ListRuns(ObjectStore& store);
// One request per run, many at a time.
std::vector<RunSummary> ReadRuns(ObjectStore& store, const std::vector<std::string>& runs);
RunSummary ReadRun(ObjectStore& store, const std::string& run);

std::string RunsTable(const std::vector<RunSummary>& runs);
std::string RunsJson(const Logdir& logdir, const std::vector<RunSummary>& runs);
// The workers of one run, and what else lies in it.
std::string RunTable(const RunSummary& run, const std::vector<StoredObject>& objects);

}  // namespace strobe
