#include "sidecar/source/agent/process_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "agent/wire/engine_file.h"
#include "agent/wire/file_lock.h"
#include "collector/store/beneath.h"
#include "common/base/file_descriptor.h"
#include "common/text/safe_text.h"
#include "sidecar/source/base/reported_steps.h"

namespace strobe::source {
namespace {

// Beyond these, a value is forged.
constexpr std::uint64_t kMaxEngineNs = std::uint64_t{1} << 60;
constexpr std::uint64_t kMaxRequests = std::uint64_t{1} << 32;

MonoTime MomentOf(std::uint64_t ns) { return MonoTime{Nanos{static_cast<std::int64_t>(ns)}}; }

std::optional<MonoTime> MomentOrNone(std::uint64_t ns) {
  return ns == 0 || ns > kMaxEngineNs ? std::nullopt : std::optional(MomentOf(ns));
}

bool IsBelievable(const wire::EngineMark& mark) {
  return mark.number >= 0 && mark.began_ns != 0 && mark.began_ns <= kMaxEngineNs &&
         mark.ended_ns <= kMaxEngineNs && (mark.ended_ns == 0 || mark.ended_ns >= mark.began_ns) &&
         mark.requests <= kMaxRequests && mark.tokens <= kMaxRequests;
}

constexpr std::string_view kFailedSuffix = ".failed";
constexpr std::size_t kMaxLine = 500, kMaxName = 100;

// The beginning of the file, as one line, and whether its process still holds it.
FailedStart ReadFailure(int directory, const char* name) {
  FailedStart start;
  const std::string_view process(name, std::strlen(name) - kFailedSuffix.size());
  start.process = WithoutControls(CutUtf8(process, kMaxName));
  const FileDescriptor file(
      openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    start.message = "left no readable message";
    return start;
  }
  start.lives = wire::ByteIsLocked(file.get(), 0);
  std::string text(kMaxLine, '\0');
  const ssize_t size = pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  start.message = CutUtf8(text, kMaxLine);
  return start;
}

}  // namespace

bool ReadStepFile(const FileDescriptor& agent_directory, const Announcement& process,
                  wire::StepFile& content) {
  if (process.steps.empty()) return false;
  const absl::StatusOr<FileDescriptor> file = storage::OpenFileIn(agent_directory, process.steps);
  return file.ok() && pread(file->get(), &content, sizeof content, 0) == ssize_t{sizeof content} &&
         content.magic == wire::kStepMagic;
}

void AddStepsOf(const FileDescriptor& agent_directory, const Announcement& process,
                std::int64_t wall_minus_monotonic_ns, std::vector<v1::StepPace>& told) {
  wire::StepFile content{};
  if (!ReadStepFile(agent_directory, process, content)) return;
  v1::StepPace who;
  who.set_process(process.label());
  who.set_teller(process.socket);
  who.set_source(v1::SOURCE_FRAMEWORK);
  AddReportedSteps(content.loops, who, wall_minus_monotonic_ns, told);
}

void AddEngineOf(const FileDescriptor& agent_directory, const Announcement& process,
                 std::vector<session::EngineReading>& told) {
  if (process.engine_file.empty() || told.size() >= kMaxEngines) return;
  const absl::StatusOr<FileDescriptor> opened =
      storage::OpenFileIn(agent_directory, process.engine_file);
  wire::EngineFile file{};
  if (!opened.ok() || pread(opened->get(), &file, sizeof file, 0) != ssize_t{sizeof file} ||
      file.magic != wire::kEngineMagic)
    return;
  session::EngineReading& engine = told.emplace_back();
  engine.process = process.label();
  wire::ForEachIteration(file, [&](const wire::EngineMark& mark) {
    if (!IsBelievable(mark)) return;
    engine.iterations.push_back({.number = mark.number,
                                 .begin = MomentOf(mark.began_ns),
                                 .end = MomentOrNone(mark.ended_ns),
                                 .requests = mark.requests,
                                 .tokens = mark.tokens});
  });
  if (file.running > kMaxRequests || file.waiting > kMaxRequests) return;
  engine.running = file.running;
  engine.waiting = file.waiting;
  engine.busy_since = MomentOrNone(file.busy_ns);
  engine.worked = MomentOrNone(file.worked_ns);
}

std::string FailedStart::container() const {
  const std::size_t at = process.find('@');
  return at == std::string::npos ? "" : process.substr(0, at);
}

std::string FailedStart::pid() const { return process.substr(process.find('@') + 1); }

std::vector<FailedStart> TakeFailedStarts(const std::string& directory) {
  std::vector<FailedStart> failed;
  DIR* const entries = opendir(directory.c_str());
  if (entries == nullptr) return failed;
  while (const dirent* entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(kFailedSuffix)) continue;
    FailedStart start = ReadFailure(dirfd(entries), entry->d_name);
    if (start.lives || unlinkat(dirfd(entries), entry->d_name, 0) == 0)
      failed.push_back(std::move(start));
    if (failed.size() == kMaxFailedStarts) break;
  }
  closedir(entries);
  return failed;
}

}  // namespace strobe::source
