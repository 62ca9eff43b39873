#include "cli/base/runs.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/base/report_table.h"
#include "collector/store/catalog/run_facts.h"
#include "common/base/duration.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "common/text/message_json.h"
#include "common/text/safe_text.h"

namespace strobe::cli {
namespace {

constexpr std::uint64_t kMaxReadBytes =
    4 * capture::kMaxManifestBytes;   // Later versions may write more.
constexpr std::size_t kReaders = 32;  // Runs read at the same time.

std::uint64_t OkWorkers(const v1::Manifest& manifest) {
  return static_cast<std::uint64_t>(
      std::count_if(manifest.workers().begin(), manifest.workers().end(),
                    [](const auto& worker) { return worker.outcome() == "Ok"; }));
}

std::string SkewText(const v1::Manifest& manifest) {
  if (!manifest.skew_known()) return "-";
  return FormatWithError(Nanos{manifest.skew_ns()}, Nanos{manifest.skew_error_ns()});
}

}  // namespace

absl::StatusOr<RunLocation> ParseRunLocation(const std::string& text) {
  std::string path = text.substr(0, text.find('?'));
  const std::string query = text.substr(path.size());
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  RunLocation place;
  const std::size_t marker = path.rfind(StrCat("/", storage::kRunsPrefix));
  if (marker != std::string::npos) {
    place.run = path.substr(marker + 1 + storage::kRunsPrefix.size());
    if (!IsSafeName(place.run))
      return absl::InvalidArgumentError(StrCat("\"", place.run, "\" is not a valid run name"));
    path = path.substr(0, marker);
    if (path.empty() || path.ends_with("/")) path += "/";  // The logdirs "file:///" and "/".
  }
  ASSIGN_OR_RETURN(place.logdir, storage::Logdir::Parse(path + query));
  return place;
}

absl::StatusOr<std::vector<std::string>> ListRuns(storage::ObjectStore& store) {
  ASSIGN_OR_RETURN(std::vector<std::string> runs, store.ListDirectories(storage::kRunsPrefix));
  std::sort(runs.rbegin(), runs.rend());
  return runs;
}

std::vector<std::string> FirstRuns(storage::ObjectStore& store,
                                   const std::vector<std::string>& folders, std::size_t most) {
  std::vector<std::string> runs;
  for (std::size_t at = 0; at < folders.size() && runs.size() < most;) {
    // The first folder usually has files, and is often the only one that is wanted.
    const std::size_t some = std::min({most - runs.size(), kReaders, folders.size() - at});
    std::array<bool, kReaders> keep{};
    ParallelFor(some, kReaders, [&](std::size_t i) {
      keep[i] = storage::HasFiles(store, storage::RunPrefix(folders[at + i])).value_or(true);
    });
    for (std::size_t i = 0; i < some; ++i) {
      if (keep[i]) runs.push_back(folders[at + i]);
    }
    at += some;
  }
  return runs;
}

RunSummary ReadRun(storage::ObjectStore& store, const std::string& run) {
  RunSummary summary{.run = run};
  const absl::StatusOr<std::string> text =
      storage::GetText(store, storage::ManifestKey(run), kMaxReadBytes);
  if (text.ok()) {
    v1::Manifest manifest;
    if (ReadJson(*text, manifest)) {
      for (const auto& worker : manifest.workers()) summary.bytes += worker.bytes();
      summary.workers = static_cast<std::size_t>(manifest.workers_size());
      summary.manifest = std::move(manifest);
      return summary;
    }
    summary.problem = "its strobe.json cannot be read";
  } else if (!absl::IsNotFound(text.status())) {
    summary.problem = MessageOf(text.status());
    return summary;
  }
  summary.empty = absl::IsNotFound(text.status());
  const absl::Status listed =
      store.List(storage::RunPrefix(run), [&](const storage::StoredObject& object) {
        summary.bytes += object.bytes;
        summary.empty = false;
        if (storage::IsSpaceName(object.name())) ++summary.workers;
        return true;
      });
  if (!listed.ok()) summary.problem = MessageOf(listed);
  summary.empty = summary.empty && listed.ok();
  return summary;
}

std::vector<RunSummary> ReadRuns(storage::ObjectStore& store,
                                 const std::vector<std::string>& runs) {
  std::vector<RunSummary> summaries(runs.size());
  ParallelFor(runs.size(), kReaders, [&](std::size_t i) {
    summaries[i] = ReadRun(store, runs[i]);
    // Only captures have reports.
    if (summaries[i].manifest) summaries[i].headline = catalog::ReadHeadline(store, runs[i]);
  });
  return summaries;
}

std::string RunsTable(const std::vector<RunSummary>& runs) {
  std::vector<Row> rows = {{"RUN", "RESULT", "WORKERS", "SKEW", "BYTES", "REQUEST", "REPORT"}};
  for (const RunSummary& run : runs) {
    if (run.manifest) {
      const v1::Manifest& manifest = *run.manifest;
      rows.push_back({run.run, manifest.result(),
                      StrCat(OkWorkers(manifest), "/", manifest.workers_size()), SkewText(manifest),
                      FormatBytes(run.bytes), manifest.request(), WithoutControls(run.headline)});
    } else {
      rows.push_back({run.run, run.problem.empty() ? "no strobe.json" : run.problem,
                      StrCat("?/", run.workers), "-", FormatBytes(run.bytes), "", ""});
    }
  }
  return AlignRows(rows);
}

std::string RunsJson(const storage::Logdir& logdir, const std::vector<RunSummary>& runs) {
  auto list = nlohmann::json::array();
  for (const RunSummary& run : runs) {
    nlohmann::json entry = {{"run", run.run},
                            {"url", logdir.RunUrl(run.run)},
                            {"bytes", run.bytes},
                            {"workers", run.workers},
                            {"manifest", run.manifest.has_value()}};
    if (run.manifest) {
      entry["result"] = run.manifest->result();
      entry["request"] = run.manifest->request();
      entry["job"] = run.manifest->job();
      entry["requester"] = run.manifest->requester();
      if (!run.headline.empty()) entry["headline"] = run.headline;
      entry["ok"] = OkWorkers(*run.manifest);
      entry["instantNs"] = run.manifest->instant_ns();
      entry["synchronized"] = run.manifest->synchronized();
      if (run.manifest->skew_known()) {
        entry["skewNs"] = run.manifest->skew_ns();
        entry["skewErrorNs"] = run.manifest->skew_error_ns();
      }
    }
    if (!run.problem.empty()) entry["problem"] = run.problem;
    list.push_back(std::move(entry));
  }
  // Names of folders may be any bytes.
  return JsonText(list, 2) + "\n";
}

std::string ObjectJson(const storage::StoredObject& object) {
  const nlohmann::ordered_json entry = {{"key", object.key}, {"bytes", object.bytes}};
  return JsonText(entry);
}

std::string RunTable(const RunSummary& run, const std::vector<storage::StoredObject>& objects) {
  std::string text;
  if (run.manifest) {
    const v1::Manifest& manifest = *run.manifest;
    std::vector<Row> rows = {kWorkerHeading};
    for (const v1::ManifestWorker& worker : manifest.workers()) {
      std::optional<Nanos> error;
      if (worker.clock_error_ns() >= 0) error = Nanos{worker.clock_error_ns()};
      rows.push_back({worker.name(), worker.outcome(),
                      worker.started_ns() == 0 ? "-" : FormatDuration(Nanos{worker.lateness_ns()}),
                      FormatWithError(Nanos{worker.clock_offset_ns()}, error),
                      StrCat(worker.events()), FormatBytes(worker.bytes()), worker.message()});
    }
    text += AlignRows(rows);
    if (!run.headline.empty()) text += StrCat(WithoutControls(run.headline), "\n");
    text += StrCat(manifest.result(), ": ", manifest.message(), "\nskew: ", SkewText(manifest),
                   "\nrequest: ", manifest.request(), ", attempt ", manifest.attempt(), "\n");
    if (!manifest.job().empty()) text += StrCat("job: ", manifest.job(), "\n");
    if (!manifest.requester().empty()) text += StrCat("requester: ", manifest.requester(), "\n");
  } else if (!objects.empty()) {
    text += StrCat(
        run.problem.empty() ? "no strobe.json: another tool wrote this run" : run.problem, "\n");
  }
  std::vector<Row> rows = {{"OBJECT", "BYTES"}};
  for (const storage::StoredObject& object : objects)
    rows.push_back({std::string(object.name()), FormatBytes(object.bytes)});
  return StrCat(text, text.empty() ? "" : "\n", AlignRows(rows));
}

}  // namespace strobe::cli
