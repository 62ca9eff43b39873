#include "operator/cli/open_traces.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "collector/base/status_macros.h"
#include "collector/base/strings.h"
#include "collector/xplane/names.h"
#include "collector/xplane/summary.h"
#include "operator/cli/open_place.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".xplane.pb";
constexpr std::uint64_t kLargest = 64ull << 30;

std::string WorkerOf(std::string_view file) {
  const std::size_t slash = file.rfind('/');
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  if (file.ends_with(kEnding)) file.remove_suffix(kEnding.size());
  return std::string(file);
}

absl::StatusOr<OpenTrace> OpenFile(const std::string& path) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  return OpenTrace{WorkerOf(path), *std::move(file)};
}

// A folder with traces in it, however it came to be.
absl::StatusOr<std::vector<OpenTrace>> OpenFolder(const std::string& folder) {
  std::vector<OpenTrace> traces;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().native().ends_with(kEnding)) continue;
    ASSIGN_OR_RETURN(OpenTrace trace, OpenFile(it->path().native()));
    traces.push_back(std::move(trace));
  }
  if (error) return absl::ErrnoToStatus(error.value(), folder);
  return traces;
}

absl::StatusOr<std::vector<OpenTrace>> OpenRun(const std::string& place,
                                               const std::string& storage_config) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Stores> stores, CommandStores(storage_config));
  ASSIGN_OR_RETURN(const OpenPlace open, OpenRunPlace(*stores, place));
  std::string run = open.place.run;
  if (run.empty()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> runs, ListRuns(*open.store));
    if (runs.empty())
      return absl::NotFoundError(StrCat(open.place.logdir.url(),
                                        " has no runs; strobe capture "
                                        "makes one"));
    run = runs.front();
  }
  if (open.place.logdir.scheme() == "file")
    return OpenFolder(StrCat(open.place.logdir.path(), "/", RunPrefix(run)));
  ASSIGN_OR_RETURN(const std::vector<StoredObject> objects, ListAll(*open.store, RunPrefix(run)));
  std::vector<OpenTrace> traces;
  for (const StoredObject& object : objects) {
    if (!object.key.ends_with(kEnding)) continue;
    ASSIGN_OR_RETURN(std::string bytes, GetText(*open.store, object.key, kLargest));
    traces.push_back({WorkerOf(object.key), std::move(bytes)});
  }
  return traces;
}

absl::StatusOr<std::vector<OpenTrace>> OpenAny(const std::string& place,
                                               const std::string& storage_config) {
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
    return OpenRun(fs::absolute(place).lexically_normal().native(), storage_config);
  }
  return OpenRun(place, storage_config);
}

// What the capture measured, as it stands in the trace.
std::int64_t ClockOffset(const xplane::Space& space) {
  std::int64_t offset = 0;
  if (const xplane::Plane* plane = space.Find(xplane::kStrobePlane)) {
    const absl::Status status = plane->ForEachStat([&](const xplane::Stat& stat) {
      if (plane->NameOf(stat) == "clock_offset_ns") offset = stat.Integer().value_or(0);
    });
    if (!status.ok()) return 0;
  }
  return offset;
}

// Some writers give lines the Unix time instead of that since the profiler's start.
void CountFromZero(std::int64_t zero, xplane::Space& space) {
  constexpr std::int64_t kNobodyRecordsSoLong = 100'000'000'000'000'000;  // Three years, in ns.
  for (xplane::Plane& plane : space.planes) {
    for (xplane::Line& line : plane.lines) {
      if (line.timestamp_ns < kNobodyRecordsSoLong) continue;
      if (zero == 0) zero = line.timestamp_ns;
      line.timestamp_ns -= zero;
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<OpenTrace>> OpenTraces(const std::string& place,
                                                  const std::string& storage_config) {
  ASSIGN_OR_RETURN(std::vector<OpenTrace> traces, OpenAny(place, storage_config));
  if (traces.empty())
    return absl::NotFoundError(
        StrCat("there is no trace in ", place, "; give a .xplane.pb file, a run or a logdir"));
  std::sort(traces.begin(), traces.end(),
            [](const OpenTrace& a, const OpenTrace& b) { return a.worker < b.worker; });
  return traces;
}

absl::StatusOr<AlignedTraces> AlignTraces(const std::vector<OpenTrace>& traces) {
  AlignedTraces aligned;
  std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
  for (const OpenTrace& trace : traces) {
    const auto named = [&](const absl::Status& status) {
      return absl::Status(status.code(), ToAbsl(StrCat(trace.worker, ": ", Words(status))));
    };
    absl::StatusOr<xplane::Space> space = xplane::Space::Read(trace.bytes());
    if (!space.ok()) return named(space.status());
    const absl::StatusOr<std::int64_t> zero = xplane::TimeZero(*space);
    if (!zero.ok()) return named(zero.status());
    CountFromZero(*zero, *space);
    // A trace that does not say when it began is shown from the beginning.
    const std::int64_t begins = *zero == 0 ? 0 : *zero - ClockOffset(*space);
    if (begins != 0) earliest = std::min(earliest, begins);
    aligned.workers.push_back({trace.worker, *std::move(space), begins});
  }
  for (convert::WorkerTrace& trace : aligned.workers)
    trace.shift_ns = trace.shift_ns == 0 ? 0 : trace.shift_ns - earliest;
  if (earliest != std::numeric_limits<std::int64_t>::max()) aligned.zero_ns = earliest;
  return aligned;
}

}  // namespace strobe
