#include "sidecar/spool/spool.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "collector/store/file_store.h"
#include "collector/store/store_error.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/message_json.h"
#include "sidecar/capture/session.h"
#include "sidecar/capture/trace_report.h"
#include "strobe/v1/spool.pb.h"

namespace strobe::spool {
namespace {

namespace fs = std::filesystem;
namespace util = google::protobuf::util;

constexpr std::string_view kTrace = ".xplane.pb";
constexpr std::string_view kReport = ".report.json";
constexpr std::string_view kUpload = ".upload.json";
constexpr std::string_view kPartial = ".partial";
// Space that stays free on the disk, because a full emptyDir gets the pod evicted.
constexpr std::uint64_t kLeftFree = 16u << 20;

template <typename Message>
std::string ToJson(const Message& message) {
  std::string json;
  (void)util::MessageToJsonString(message, &json);
  return json;
}

// False when there is no such file, or it contains no such message.
bool ReadFile(const std::string& path, google::protobuf::Message& message) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  return text.ok() && ReadJson(*text, message);
}

// The sum of `bytes` over a map of traces.
template <typename Traces>
std::uint64_t Sum(const Traces& traces) {
  return std::accumulate(
      traces.begin(), traces.end(), std::uint64_t{0},
      [](std::uint64_t sum, const auto& trace) { return sum + trace.second.bytes; });
}

WallTime WrittenAt(const std::string& path) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  return fs::file_time_type::clock::to_sys(error ? fs::file_time_type::clock::now() : time);
}

}  // namespace

std::vector<SpooledTrace> TracesOf(const v1::Report& report) {
  std::vector<SpooledTrace> traces;
  for (const v1::Report* trace : session::TraceReports(report)) {
    traces.push_back({trace == &report
                          ? report.capture_id()
                          : StrCat(report.capture_id(), "@", trace->rank().local_rank()),
                      trace});
  }
  return traces;
}

absl::StatusOr<std::unique_ptr<Spool>> Spool::Open(const std::string& directory,
                                                   std::uint64_t capacity) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return storage::FileError(error.value(), "create the spool", directory);
  const std::string lock_path = directory + "/lock";
  const int lock = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return storage::FileError(errno, "use the spool", directory);
  std::unique_ptr<Spool> spool(new Spool(directory, lock, capacity));
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(StrCat("another sidecar uses the spool ", directory,
                                                "; give each sidecar its own directory"));
  }
  RETURN_IF_ERROR(spool->Recover());
  return spool;
}

Spool::Spool(std::string directory, int lock, std::uint64_t capacity)
    : directory_(std::move(directory)), lock_(lock), capacity_(capacity) {}

Spool::~Spool() { close(lock_); }

absl::Status Spool::Recover() {
  MutexLock lock(&mutex_);
  std::vector<std::pair<fs::file_time_type, v1::Report>> found;
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error))
    files.push_back(it->path());
  if (error) return storage::FileError(error.value(), "list the spool", directory_);
  const auto without = [](const fs::path& path, std::string_view suffix) -> std::string {
    const std::string name = path.filename().native();
    return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : "";
  };
  for (const fs::path& file : files) {
    if (without(file, kReport).empty()) continue;
    v1::Report report;
    if (ReadFile(file.native(), report) && report.capture_id() == without(file, kReport)) {
      found.emplace_back(fs::last_write_time(file, error), std::move(report));
    } else {
      LogWarning("the spool contains an unreadable report; it is set aside",
                 {{"file", file.native()}});
      fs::rename(file, file.native() + ".unreadable", error);
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [time, report] : found) {
    for (const SpooledTrace& trace : TracesOf(report)) {
      if (const std::uint64_t bytes = fs::file_size(PathOf(trace.id, kTrace), error); !error)
        traces_[trace.id] = {bytes, WrittenAt(PathOf(trace.id, kTrace))};
    }
    reports_.push_back(report.capture_id());
    recovered_.push_back(std::move(report));
  }
  for (const fs::path& file : files) {
    const std::string name = file.filename().native();
    // A process that ended between deleting a trace and the journal of its upload left the journal.
    // It is removed here.
    const std::string trace = without(file, kTrace), journal = without(file, kUpload);
    const bool orphan = (!trace.empty() && !traces_.contains(trace)) ||
                        (!journal.empty() && !traces_.contains(journal));
    if (orphan || name.ends_with(kPartial)) fs::remove(file, error);
  }
  return absl::OkStatus();
}

std::vector<v1::Report> Spool::recovered() const {
  MutexLock lock(&mutex_);
  return recovered_;
}

std::uint64_t Spool::free_bytes() const {
  MutexLock lock(&mutex_);
  const std::uint64_t used = Sum(traces_);
  std::uint64_t left = capacity_ > used ? capacity_ - used : 0;
  struct statvfs disk = {};
  if (statvfs(directory_.c_str(), &disk) == 0) {
    const std::uint64_t room = disk.f_bavail * disk.f_frsize;
    left = std::min(left, room > kLeftFree ? room - kLeftFree : 0);
  }
  return left;
}

std::uint64_t Spool::used_bytes() const {
  MutexLock lock(&mutex_);
  return Sum(traces_);
}

std::size_t Spool::traces() const {
  MutexLock lock(&mutex_);
  return traces_.size();
}

std::optional<WallTime> Spool::oldest() const {
  MutexLock lock(&mutex_);
  const auto oldest = std::min_element(
      traces_.begin(), traces_.end(),
      [](const auto& a, const auto& b) { return a.second.since < b.second.since; });
  return oldest == traces_.end() ? std::nullopt : std::optional(oldest->second.since);
}

absl::Status Spool::Add(const std::string& trace_id, std::span<const std::string_view> pieces) {
  const storage::MemoryBytes bytes(pieces);
  if (bytes.size() > free_bytes()) {
    return absl::ResourceExhaustedError(StrCat("the spool ", directory_, " has ", free_bytes(),
                                               " bytes left, but the trace has ", bytes.size()));
  }
  storage::FileStore files(directory_);
  RETURN_IF_ERROR(files.Put(trace_id + std::string(kTrace), bytes, {}));
  MutexLock lock(&mutex_);
  traces_[trace_id] = {bytes.size(), WrittenAt(PathOf(trace_id, kTrace))};
  return absl::OkStatus();
}

absl::Status Spool::SaveReport(const v1::Report& report) {
  storage::FileStore files(directory_);
  RETURN_IF_ERROR(
      storage::PutText(files, report.capture_id() + std::string(kReport), ToJson(report)));
  MutexLock lock(&mutex_);
  if (std::find(reports_.begin(), reports_.end(), report.capture_id()) == reports_.end())
    reports_.push_back(report.capture_id());
  ForgetOldReports();
  return absl::OkStatus();
}

void Spool::ForgetOldReports() {
  std::error_code ignored;
  for (auto it = reports_.begin();
       it != reports_.end() && reports_.size() > session::kRemembered;) {
    const auto of_a_rank = traces_.lower_bound(*it + "@");
    if (traces_.contains(*it) ||
        (of_a_rank != traces_.end() && of_a_rank->first.starts_with(*it + "@"))) {
      ++it;
      continue;
    }
    fs::remove(PathOf(*it, kReport), ignored);
    it = reports_.erase(it);
  }
}

bool Spool::HasTrace(const std::string& trace_id) const {
  MutexLock lock(&mutex_);
  return traces_.contains(trace_id);
}

std::string Spool::TracePath(const std::string& trace_id) const { return PathOf(trace_id, kTrace); }

std::string Spool::ScratchPath(const std::string& capture_id) const {
  return PathOf(capture_id, kPartial);
}

void Spool::RemoveTrace(const std::string& trace_id) {
  std::error_code ignored;
  fs::remove(PathOf(trace_id, kTrace), ignored);
  fs::remove(PathOf(trace_id, kUpload), ignored);
  MutexLock lock(&mutex_);
  traces_.erase(trace_id);
}

absl::Status Spool::SaveUpload(const std::string& trace_id, const storage::UploadState& state) {
  v1::UploadProgress progress;
  progress.set_id(state.id);
  progress.set_key(state.key);
  progress.set_part_bytes(state.part_bytes);
  for (const std::string& part : state.parts) progress.add_parts(part);
  // Not flushed: if the machine crashes, only the parts since the last write-back are uploaded
  // again.
  const std::string path = PathOf(trace_id, kUpload), hidden = path + ".partial";
  {
    std::ofstream out(hidden, std::ios::trunc);
    out << ToJson(progress);
    if (!out.flush()) return storage::FileError(errno, "write", hidden);
  }
  if (rename(hidden.c_str(), path.c_str()) != 0)
    return storage::FileError(errno, "rename to", path);
  return absl::OkStatus();
}

storage::UploadState Spool::LoadUpload(const std::string& trace_id) const {
  v1::UploadProgress progress;
  storage::UploadState state;
  if (!ReadFile(PathOf(trace_id, kUpload), progress)) return state;
  state.key = progress.key();
  if (progress.part_bytes() == 0) return state;
  state.id = progress.id();
  state.part_bytes = progress.part_bytes();
  state.parts.assign(progress.parts().begin(), progress.parts().end());
  return state;
}

std::string Spool::PathOf(std::string_view id, std::string_view suffix) const {
  return StrCat(directory_, "/", id, suffix);
}

}  // namespace strobe::spool
