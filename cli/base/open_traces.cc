#include "cli/base/open_traces.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "collector/store/logdir.h"
#include "collector/store/stored_memory.h"
#include "collector/trace/kineto/trace_file.h"
#include "collector/trace/xplane/file_kind.h"
#include "common/base/file_descriptor.h"
#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

namespace fs = std::filesystem;
using convert::OpenTrace;

// The members of a trace that come before its events may be large.
constexpr std::size_t kPlainHeadBytes = 1 << 20;

std::string WorkerOf(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  if (file.ends_with(storage::kTraceSuffix)) file.remove_suffix(storage::kTraceSuffix.size());
  return std::string(file);
}

// The first bytes of a file.
absl::StatusOr<std::string> HeadOf(const std::string& path, std::size_t most) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(path));
  std::string head(most, '\0');
  std::size_t size = 0;
  while (size < head.size()) {
    ASSIGN_OR_RETURN(const std::size_t got, ReadSome(file, std::span(head).subspan(size)));
    if (got == 0) break;
    size += got;
  }
  head.resize(size);
  return head;
}

// What the file holds decides how it is read, whatever its name is.
absl::StatusOr<OpenTrace> OpenFile(const std::string& path, const std::string& cache) {
  ASSIGN_OR_RETURN(const bool json, MayBeJson(path));
  if (json) return OpenTraceJson(path, cache);
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return OpenTrace{WorkerOf(path), path, *std::move(file)};
}

// A trace among others that cannot be read.
OpenTrace Damaged(const std::string& file, absl::Status why) {
  OpenTrace trace{
      .worker = kineto::IsTraceFileName(file) ? WorkerOfTraceJson(file) : WorkerOf(file),
      .damage = std::move(why)};
  trace.content = std::make_unique<const std::string>();
  return trace;
}

// The traces among a folder's files, by their names in it. Some profilers write JSON beside their
// XSpaces; it is then the same trace again.
struct Found {
  std::vector<std::string> names{};
  // No name tells a trace. These are JSON files, each of which may be one: many people and tools
  // call theirs rank0_trace.json or rank-0.json.gz.
  bool plain_json = false;
};

Found TracesAmong(const std::vector<std::string>& files) {
  std::vector<std::string> spaces, jsons, plain;
  for (const std::string& file : files) {
    if (storage::IsSpaceName(file)) spaces.push_back(file);
    if (storage::IsTraceJsonName(file)) jsons.push_back(file);
    const bool ours = file == "strobe.json" || file == "report.json";
    if (kineto::IsTraceFileName(file) && file.find('/') == std::string::npos && !ours)
      plain.push_back(file);
  }
  if (!spaces.empty()) return {std::move(spaces)};
  if (!jsons.empty()) return {std::move(jsons)};
  return {.names = std::move(plain), .plain_json = true};
}

// Whether a JSON file whose name tells nothing holds events, by its first bytes.
bool HoldsEvents(std::string_view raw) {
  const std::string head = PlainHead(raw, kPlainHeadBytes);
  if (!xplane::BeginsJson(head)) return false;
  constexpr std::string_view kEvents = "\"traceEvents\"";
  for (std::size_t at = head.find(kEvents); at != std::string::npos;
       at = head.find(kEvents, at + 1)) {
    const std::size_t behind = head.find_first_not_of(" \t\r\n", at + kEvents.size());
    if (behind != std::string::npos && head[behind] == ':') return true;
  }
  return head.find_first_of("{[") == head.find('[') && Contains(head, "\"ph\"");
}

absl::StatusOr<Found> TracesIn(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error, unknown;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->is_directory(unknown)) files.push_back(it->path().filename().native());
  }
  if (error) return absl::ErrnoToStatus(error.value(), folder);
  return TracesAmong(files);
}

// The paths of the traces directly in a folder. None is no error.
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& folder) {
  ASSIGN_OR_RETURN(const Found found, TracesIn(folder));
  std::vector<std::string> paths;
  for (const std::string& name : found.names) {
    const std::string path = (fs::path(folder) / name).native();
    if (!found.plain_json || HoldsEvents(HeadOf(path, kPlainHeadBytes).value_or("")))
      paths.push_back(path);
  }
  return paths;
}

absl::StatusOr<std::vector<OpenTrace>> OpenFolder(const std::string& folder,
                                                  const std::string& cache) {
  std::vector<OpenTrace> traces;
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ListFolder(folder));
  for (const std::string& path : paths) {
    absl::StatusOr<OpenTrace> trace = OpenFile(path, cache);
    if (absl::IsDataLoss(trace.status())) trace = Damaged(path, trace.status());
    RETURN_IF_ERROR(trace.status());
    trace->run = fs::path(path).parent_path().filename().native();
    traces.push_back(*std::move(trace));
  }
  return traces;
}

// The run that the place names, or else the newest one.
absl::StatusOr<std::string> RunOf(const OpenLocation& open) {
  if (!open.location.run.empty()) return open.location.run;
  return NewestRun(open);
}

// `json` is null if conversions are not bounded.
absl::StatusOr<OpenTrace> OpenObject(std::shared_ptr<storage::ObjectStore> store,
                                     const std::string& url, const std::string& key,
                                     std::shared_ptr<FetchPool> pool, JsonConversions::Run* json) {
  ASSIGN_OR_RETURN(storage::StoredMemory object,
                   storage::MapObject(std::move(store), key, std::move(pool)));
  if (kineto::IsTraceFileName(key)) {
    absl::StatusOr<OpenTrace> trace = json != nullptr ? json->Convert(key, object.memory.bytes())
                                                      : ReadTraceJson(key, object.memory.bytes());
    RETURN_IF_ERROR(object.memory.Check());  // Checked first, because it explains all other errors.
    if (absl::IsDataLoss(trace.status())) return Damaged(key, trace.status());
    return trace;
  }
  // Without a version, the trace is identified by its content.
  std::string identity = object.version.empty() ? "" : StrCat(url, " ", object.version);
  return OpenTrace{.worker = WorkerOf(key),
                   .path = "",
                   .content = std::move(object.memory),
                   .identity = std::move(identity)};
}

absl::StatusOr<std::vector<OpenTrace>> OpenRun(const std::string& place,
                                               const std::string& storage_config,
                                               const TraceReading& reading) {
  ASSIGN_OR_RETURN(OpenLocation open,
                   OpenRunLocation(place, storage_config, {.cancellation = reading.cancellation}));
  ASSIGN_OR_RETURN(const std::string run, RunOf(open));
  if (open.location.logdir.scheme() == "file" && !reading.files_through_store)
    return OpenFolder(StrCat(open.location.logdir.path(), "/", storage::RunPrefix(run)),
                      reading.cache);
  ASSIGN_OR_RETURN(const std::vector<storage::StoredObject> objects,
                   storage::ListAll(*open.store, storage::RunPrefix(run)));
  std::vector<std::string> names;
  for (const storage::StoredObject& object : objects) names.emplace_back(object.name());
  std::shared_ptr<FetchPool> pool = reading.pool;
  if (pool == nullptr) {
    ASSIGN_OR_RETURN(pool, FetchPool::Create({}));
  }
  const std::shared_ptr<storage::ObjectStore> store = std::move(open.store);
  std::optional<JsonConversions::Run> json;
  if (reading.json != nullptr) json.emplace(reading.json, reading.cancellation);
  std::vector<OpenTrace> traces;
  const Found found = TracesAmong(names);
  for (const std::string& name : found.names) {
    const std::string key = storage::RunPrefix(run) + name;
    if (found.plain_json) {
      std::string head(kPlainHeadBytes, '\0');
      ASSIGN_OR_RETURN(const std::size_t size, store->Read(key, 0, head));
      if (!HoldsEvents(std::string_view(head).substr(0, size))) continue;
    }
    ASSIGN_OR_RETURN(OpenTrace trace, OpenObject(store, open.location.logdir.UrlOf(key), key, pool,
                                                 json ? &*json : nullptr));
    trace.run = run;
    traces.push_back(std::move(trace));
  }
  return traces;
}

absl::StatusOr<std::vector<OpenTrace>> OpenAny(const std::string& place,
                                               const std::string& storage_config,
                                               const TraceReading& reading) {
  std::error_code error;
  if (fs::is_regular_file(place, error)) {
    ASSIGN_OR_RETURN(OpenTrace trace, OpenFile(place, reading.cache));
    std::vector<OpenTrace> traces;
    traces.push_back(std::move(trace));
    return traces;
  }
  if (fs::is_directory(place, error)) {
    ASSIGN_OR_RETURN(std::vector<OpenTrace> traces, OpenFolder(place, reading.cache));
    if (!traces.empty()) return traces;
  } else if (place.find("://") == std::string::npos) {
    return absl::NotFoundError(StrCat("there is no file or directory ", place));
  }
  return OpenRun(place, storage_config, reading);
}

}  // namespace

absl::StatusOr<bool> MayBeJson(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string head, HeadOf(path, xplane::kHeadBytes));
  if (xplane::BeginsJson(head) || xplane::BeginsGzip(head)) return true;
  // What a profiler writes that has recorded nothing is empty, too; its verdict says why.
  if (head.empty() && !storage::IsSpaceName(fs::path(path).filename().string()))
    return absl::DataLossError(ToAbsl(StrCat(path, ": the file is empty")));
  if (const std::string why = xplane::WhyNoSpace(head); !why.empty())
    return absl::DataLossError(ToAbsl(StrCat(path, ": ", why)));
  return false;
}

bool HasTraces(const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> paths = ListFolder(folder);
  return paths.ok() && !paths->empty();
}

absl::StatusOr<std::string> StampOfTraces(storage::ObjectStore& store, const std::string& run) {
  ASSIGN_OR_RETURN(const std::vector<storage::StoredObject> objects,
                   storage::ListAll(store, storage::RunPrefix(run)));
  std::vector<std::string> names;
  for (const storage::StoredObject& object : objects) names.emplace_back(object.name());
  const Found found = TracesAmong(names);
  const std::set<std::string_view> wanted(found.names.begin(), found.names.end());
  std::string text;
  for (const storage::StoredObject& object : objects) {
    if (wanted.contains(object.name()))
      text += StrCat(object.key, " ", object.bytes, " ", object.version, "\n");
  }
  return StrCat(Fnv1a(text));
}

absl::StatusOr<std::string> StampOfTraces(const std::string& path) {
  std::error_code error;
  std::vector<std::string> paths{path};
  if (!fs::is_regular_file(path, error)) {
    ASSIGN_OR_RETURN(paths, ListFolder(path));
    std::sort(paths.begin(), paths.end());
  }
  return StampOfFiles(paths);
}

absl::StatusOr<std::string> NewestRun(const OpenLocation& open) {
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, ListRuns(*open.store));
  const std::vector<std::string> newest = FirstRuns(*open.store, folders, 1);
  if (!newest.empty()) return newest.front();
  const storage::Logdir& logdir = open.location.logdir;
  std::error_code error;
  if (logdir.scheme() == "file" && !fs::exists(logdir.path(), error))
    return absl::NotFoundError(StrCat("there is no file or directory ", logdir.path()));
  const absl::StatusOr<Found> files = TracesIn(logdir.path());
  const bool json = logdir.scheme() == "file" && files.ok() && !files->names.empty();
  return absl::NotFoundError(StrCat(logdir.url(), " has no runs; strobe capture makes one",
                                    json ? StrCat("; none of its ", files->names.size(),
                                                  " .json files is a trace in Chrome's format")
                                         : std::string()));
}

absl::StatusOr<std::vector<OpenTrace>> OpenTraces(const std::string& place,
                                                  const std::string& storage_config,
                                                  const TraceReading& reading) {
  ASSIGN_OR_RETURN(std::vector<OpenTrace> traces, OpenAny(place, storage_config, reading));
  if (traces.empty())
    return absl::NotFoundError(StrCat("there is no trace in ", place,
                                      "; give a .xplane.pb or .json file, a run or a logdir"));
  std::sort(traces.begin(), traces.end(),
            [](const OpenTrace& a, const OpenTrace& b) { return a.worker < b.worker; });
  return traces;
}

void Warn(const std::vector<convert::LeftOut>& left_out) {
  for (const convert::LeftOut& worker : left_out) std::cerr << worker.Warning() << "\n";
}

std::optional<v1::Manifest> FindManifest(const std::string& place,
                                         const std::string& storage_config) {
  std::error_code error;
  if (fs::is_regular_file(place, error)) return std::nullopt;
  const absl::StatusOr<OpenLocation> open = OpenRunLocation(place, storage_config);
  if (!open.ok()) return std::nullopt;
  const absl::StatusOr<std::string> run = RunOf(*open);
  return run.ok() ? ReadRun(*open->store, *run).manifest : std::nullopt;
}

}  // namespace strobe::cli
