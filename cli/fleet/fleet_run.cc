#include "cli/fleet/fleet_run.h"

#include <chrono>
#include <filesystem>
#include <set>

#include "cli/base/open_traces.h"
#include "cli/export/table_files.h"
#include "collector/store/byte_source.h"
#include "collector/store/upload.h"
#include "collector/trace/report/run_report.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::cli {
namespace {

namespace fs = std::filesystem;

// Making the tables reads each trace three times, one trace after another. With this limit, a trace
// that fits is fetched only once for that. Opening the run has read all of its planes before.
constexpr FetchLimits kFleetFetching = {.blocks = 512};
constexpr std::size_t kMaxRowBytes = 64 << 10, kMaxReportBytes = 16 << 20;

// Removes the folder's content, and the folder itself.
class ScratchFolder {
 public:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) { Remove(); }
  ~ScratchFolder() { Remove(); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

  // The files in it, relative to it.
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    std::error_code error;
    for (fs::recursive_directory_iterator it(path_, error), end; !error && it != end;
         it.increment(error)) {
      if (it->is_regular_file(error)) files.push_back(fs::relative(it->path(), path_).native());
    }
    return files;
  }

 private:
  void Remove() const {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const std::string path_;
};

// The URL of a run with the options of its logdir.
std::string PlaceOfRun(const std::string& logdir, const std::string& run) {
  std::string path = logdir.substr(0, logdir.find('?'));
  const std::string options = logdir.substr(path.size());
  while (path.ends_with('/')) path.pop_back();
  return StrCat(path, "/", storage::RunPrefix(run), options);
}

class FleetConversion {
 public:
  FleetConversion(const FleetLocations& locations, const std::string& run, bool stats,
                  const Cancellation& stop)
      : locations_(locations), run_(run), stats_(stats), stop_(stop), row_{.run = run} {}

  FleetResult Run() {
    const auto began = std::chrono::steady_clock::now();
    FleetResult result;
    absl::StatusOr<bool> done_before = Convert();
    row_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (done_before.ok() && !*done_before) result.status = PublishRow();
    if (!done_before.ok()) result.status = done_before.status();
    result.done_before = done_before.value_or(false);
    if (!result.status.ok()) TakeBack(result.status);
    result.row = row_;
    return result;
  }

 private:
  // True if it was done before.
  absl::StatusOr<bool> Convert() {
    ASSIGN_OR_RETURN(row_.identity, IdentityNow());
    former_ = FormerRow();
    if (former_ && former_->identity == row_.identity && former_->state != FleetState::kFailed) {
      row_ = *former_;
      return true;
    }
    if (traces_ == 0) {
      row_.state = FleetState::kEmpty;
      RETURN_IF_ERROR(BeginToPublish());
      RETURN_IF_ERROR(RemoveStale({}));
      return false;
    }
    const ScratchFolder scratch(StrCat(locations_.scratch, "/", UrlEncode(run_)));
    RETURN_IF_ERROR(WriteTables(scratch.path()));
    ASSIGN_OR_RETURN(const std::string after, IdentityNow());
    if (after != row_.identity)
      return absl::UnavailableError("its traces were changed while they were read");
    RETURN_IF_ERROR(Publish(scratch));
    return false;
  }

  absl::StatusOr<std::string> IdentityNow() {
    ASSIGN_OR_RETURN(std::vector<storage::StoredObject> objects,
                     storage::ListAll(*locations_.from, storage::RunPrefix(run_)));
    traces_ = row_.trace_bytes = 0;
    for (const storage::StoredObject& object : objects) {
      if (!IsFleetTrace(object)) continue;
      ++traces_;
      row_.trace_bytes += object.bytes;
    }
    return FleetIdentity(std::move(objects), stats_);
  }

  // The destination's row of the run; none if it cannot be read.
  std::optional<FleetRun> FormerRow() {
    const absl::StatusOr<std::string> text =
        storage::GetText(*locations_.to, FleetRowKey(run_), kMaxRowBytes);
    if (!text.ok()) return std::nullopt;
    absl::StatusOr<FleetRun> row = ReadFleetRun(*text);
    return row.ok() ? std::optional(*std::move(row)) : std::nullopt;
  }

  absl::Status WriteTables(const std::string& folder) {
    ASSIGN_OR_RETURN(std::shared_ptr<FetchPool> pool, FetchPool::Create(kFleetFetching));
    ASSIGN_OR_RETURN(const std::vector<convert::OpenTrace> opened,
                     OpenTraces(PlaceOfRun(locations_.logdir, run_), locations_.storage_config,
                                {.pool = std::move(pool), .cancellation = &stop_}));
    const absl::StatusOr<convert::AlignedTraces> traces = convert::AlignTraces(opened);
    RETURN_IF_ERROR(convert::Unchanged(opened, traces.status()));
    // Tables that lack a worker would look like those of a smaller run.
    if (!traces->left_out.empty()) return traces->left_out.front().Error();
    row_.workers = traces->workers.size();
    report::RunReport report;
    const auto digested = [&](const digest::Digest& digest) {
      row_.events += digest.events;
      report.Add(digest);
    };
    const absl::Status written =
        WriteTableFiles(*traces, run_, folder,
                        {.stats = stats_, .digested = digested, .stop = &stop_}, row_.table_bytes);
    RETURN_IF_ERROR(convert::Unchanged(opened, written));
    report::MadeReport made = report.Finish("", run_, kMaxReportBytes);
    row_.headline = std::move(made.headline);
    report_ = std::move(made.json);
    return absl::OkStatus();
  }

  // From now on the run is not complete.
  absl::Status BeginToPublish() {
    published_ = true;
    const std::string row[] = {FleetRowKey(run_)};
    return locations_.to->Delete(row);
  }

  absl::Status Publish(const ScratchFolder& scratch) {
    RETURN_IF_ERROR(BeginToPublish());
    std::set<std::string> keys = {FleetReportKey(run_)};
    for (const std::string& key : scratch.Files()) {
      if (stop_.cancelled()) return absl::CancelledError("interrupted");
      RETURN_IF_ERROR(Replace(key, StrCat(scratch.path(), "/", key)));
      keys.insert(key);
    }
    RETURN_IF_ERROR(RemoveStale(keys));
    return storage::PutText(*locations_.to, FleetReportKey(run_), report_);
  }

  // An object with the same bytes is left alone, so that two processes that do the same work do
  // not disturb each other.
  absl::Status Replace(const std::string& key, const std::string& path) {
    ASSIGN_OR_RETURN(const std::unique_ptr<storage::FileBytes> bytes,
                     storage::FileBytes::Open(path));
    ASSIGN_OR_RETURN(const std::string sha256, storage::HashBytes(*bytes));
    const absl::Status status = storage::Upload(*locations_.to, key, *bytes, {.sha256 = sha256});
    if (!absl::IsAlreadyExists(status)) return status;
    const std::string former[] = {key};
    RETURN_IF_ERROR(locations_.to->Delete(former));
    return storage::Upload(*locations_.to, key, *bytes, {.sha256 = sha256});
  }

  // Deletes tables of workers that the run has no more.
  absl::Status RemoveStale(const std::set<std::string>& keys) {
    std::vector<std::string> stale;
    for (const std::string& prefix : FleetPrefixes(run_)) {
      RETURN_IF_ERROR(locations_.to->List(prefix, [&](const storage::StoredObject& object) {
        if (!keys.contains(object.key)) stale.push_back(object.key);
        return true;
      }));
    }
    return stale.empty() ? absl::OkStatus() : locations_.to->Delete(stale);
  }

  absl::Status PublishRow() {
    if (stop_.cancelled()) return absl::CancelledError("interrupted");
    return storage::PutText(*locations_.to, FleetRowKey(run_), FleetRunJson(row_));
  }

  // Marks the run as failed. What an earlier conversion made of it stays, unless the error shows
  // that it is wrong.
  void TakeBack(const absl::Status& status) {
    row_.state = FleetState::kFailed;
    row_.problem = MessageOf(status);
    const bool stopped = stop_.cancelled();
    if (!published_ && (stopped || (former_ && !IsHopeless(status)))) return;
    Undo();
    // The row only informs people and queries, so a failure to write it changes nothing.
    if (!stopped) (void)storage::PutText(*locations_.to, FleetRowKey(run_), FleetRunJson(row_));
  }

  // Best effort, because the store itself may have failed.
  void Undo() {
    const absl::StatusOr<std::unique_ptr<storage::ObjectStore>> to = locations_.open_to_undo();
    if (!to.ok()) return;
    const std::string row[] = {FleetRowKey(run_)};
    (void)(*to)->Delete(row);
    for (const std::string& prefix : FleetPrefixes(run_)) (void)storage::DeleteBelow(**to, prefix);
  }

  const FleetLocations& locations_;
  const std::string& run_;
  const bool stats_;
  const Cancellation& stop_;
  FleetRun row_;
  std::optional<FleetRun> former_{};
  std::size_t traces_ = 0;
  std::string report_{};
  bool published_ = false;  // Something of the run may be in the destination without a row.
};

}  // namespace

FleetResult ConvertFleetRun(const FleetLocations& locations, const std::string& run, bool stats,
                            const Cancellation& stop) {
  return FleetConversion(locations, run, stats, stop).Run();
}

}  // namespace strobe::cli
