#include "cli/open_traces.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "collector/kineto/trace_file.h"
#include "collector/storage/stored_memory.h"
#include "common/base/file_stamp.h"
#include "common/base/fnv.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;
using convert::OpenTrace;

std::string WorkerOf(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  if (file.ends_with(kTraceSuffix)) file.remove_suffix(kTraceSuffix.size());
  return std::string(file);
}

absl::StatusOr<OpenTrace> OpenFile(const std::string& path) {
  if (kineto::IsTraceFileName(path)) return OpenTraceJson(path);
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

// Whether a file in a folder holds a worker's trace as JSON. Other JSON files, such as the
// manifest, may hold anything.
bool IsTraceJson(std::string_view file) {
  return file.ends_with(".trace.json") || file.ends_with(".trace.json.gz");
}

// The traces among a folder's files. Some profilers write JSON beside their XSpaces; it is then the
// same trace again.
std::vector<std::string> TracesAmong(const std::vector<std::string>& files) {
  std::vector<std::string> spaces, jsons;
  for (const std::string& file : files) {
    if (file.ends_with(kTraceSuffix)) spaces.push_back(file);
    if (IsTraceJson(file)) jsons.push_back(file);
  }
  return spaces.empty() ? jsons : spaces;
}

// The paths of the traces directly in a folder. None is no error.
absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    files.push_back(it->path().native());
  if (error) return absl::ErrnoToStatus(error.value(), folder);
  return TracesAmong(files);
}

absl::StatusOr<std::vector<OpenTrace>> OpenFolder(const std::string& folder) {
  std::vector<OpenTrace> traces;
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ListFolder(folder));
  for (const std::string& path : paths) {
    absl::StatusOr<OpenTrace> trace = OpenFile(path);
    if (absl::IsDataLoss(trace.status())) trace = Damaged(path, trace.status());
    RETURN_IF_ERROR(trace.status());
    trace->run = fs::path(path).parent_path().filename().native();
    traces.push_back(*std::move(trace));
  }
  return traces;
}

// The run that the place names, or else the newest one.
absl::StatusOr<std::string> RunOf(const OpenPlace& open) {
  if (!open.place.run.empty()) return open.place.run;
  ASSIGN_OR_RETURN(const std::vector<std::string> runs, RunsOf(open));
  return runs.front();
}

// `json` is null if conversions are not bounded.
absl::StatusOr<OpenTrace> OpenObject(std::shared_ptr<ObjectStore> store, const std::string& url,
                                     const std::string& key, std::shared_ptr<FetchPool> pool,
                                     JsonConversions::Run* json) {
  ASSIGN_OR_RETURN(storage::StoredMemory object,
                   storage::MapObject(std::move(store), key, std::move(pool)));
  if (IsTraceJson(key)) {
    absl::StatusOr<OpenTrace> trace = json != nullptr ? json->Convert(key, object.memory.bytes())
                                                      : ReadTraceJson(key, object.memory.bytes());
    RETURN_IF_ERROR(object.memory.Check());  // Checked first, because it explains all other errors.
    if (absl::IsDataLoss(trace.status())) return Damaged(key, trace.status());
    return trace;
  }
  // Without a version, the trace is identified by its content.
  std::string identity = object.version.empty() ? "" : StrCat(url, " ", object.version);
  return OpenTrace{WorkerOf(key), "", std::move(object.memory), std::move(identity)};
}

absl::StatusOr<std::vector<OpenTrace>> OpenRun(const std::string& place,
                                               const std::string& storage_config,
                                               const TraceReading& reading) {
  ASSIGN_OR_RETURN(OpenPlace open,
                   OpenRunPlace(place, storage_config, {.cancellation = reading.cancellation}));
  ASSIGN_OR_RETURN(const std::string run, RunOf(open));
  if (open.place.logdir.scheme() == "file" && !reading.files_through_store)
    return OpenFolder(StrCat(open.place.logdir.path(), "/", RunPrefix(run)));
  ASSIGN_OR_RETURN(const std::vector<StoredObject> objects, ListAll(*open.store, RunPrefix(run)));
  std::vector<std::string> keys;
  for (const StoredObject& object : objects) keys.push_back(object.key);
  std::shared_ptr<FetchPool> pool = reading.pool;
  if (pool == nullptr) {
    ASSIGN_OR_RETURN(pool, FetchPool::Create({}));
  }
  const std::shared_ptr<ObjectStore> store = std::move(open.store);
  std::optional<JsonConversions::Run> json;
  if (reading.json != nullptr) json.emplace(reading.json, reading.cancellation);
  std::vector<OpenTrace> traces;
  for (const std::string& key : TracesAmong(keys)) {
    ASSIGN_OR_RETURN(OpenTrace trace, OpenObject(store, open.place.logdir.UrlOf(key), key, pool,
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
    ASSIGN_OR_RETURN(OpenTrace trace, OpenFile(place));
    std::vector<OpenTrace> traces;
    traces.push_back(std::move(trace));
    return traces;
  }
  if (fs::is_directory(place, error)) {
    ASSIGN_OR_RETURN(std::vector<OpenTrace> traces, OpenFolder(place));
    if (!traces.empty()) return traces;
  } else if (place.find("://") == std::string::npos) {
    return absl::NotFoundError(StrCat("there is no file or directory ", place));
  }
  return OpenRun(place, storage_config, reading);
}

}  // namespace

bool HasTraces(const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> paths = ListFolder(folder);
  return paths.ok() && !paths->empty();
}

absl::StatusOr<std::string> StampOfTraces(ObjectStore& store, const std::string& run) {
  ASSIGN_OR_RETURN(const std::vector<StoredObject> objects, ListAll(store, RunPrefix(run)));
  std::vector<std::string> keys;
  for (const StoredObject& object : objects) keys.push_back(object.key);
  const std::vector<std::string> traces = TracesAmong(keys);
  const std::set<std::string_view> wanted(traces.begin(), traces.end());
  std::string text;
  for (const StoredObject& object : objects) {
    if (wanted.contains(object.key))
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

absl::StatusOr<std::vector<std::string>> RunsOf(const OpenPlace& open) {
  ASSIGN_OR_RETURN(std::vector<std::string> runs, ListRuns(*open.store));
  if (!runs.empty()) return runs;
  const Logdir& logdir = open.place.logdir;
  std::error_code error;
  if (logdir.scheme() == "file" && !fs::exists(logdir.path(), error))
    return absl::NotFoundError(StrCat("there is no directory ", logdir.path()));
  return absl::NotFoundError(StrCat(logdir.url(), " has no runs; strobe capture makes one"));
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
  const absl::StatusOr<OpenPlace> open = OpenRunPlace(place, storage_config);
  if (!open.ok()) return std::nullopt;
  const absl::StatusOr<std::string> run = RunOf(*open);
  return run.ok() ? ReadRun(*open->store, *run).manifest : std::nullopt;
}

}  // namespace strobe
