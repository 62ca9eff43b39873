#include "sidecar/source/agent/agent_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "agent/wire/file_lock.h"
#include "agent/wire/ticks.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "sidecar/source/base/announcements.h"

namespace strobe::source {
namespace {

namespace fs = std::filesystem;
using wire::FailureStep;

constexpr std::size_t kMaxFailedPrograms = 64;
constexpr int kMaxGenerations = 64;

absl::StatusOr<int> OpenDirectory(const std::string& path) {
  std::error_code error;
  // Programs of all users of the pod create files here. Only the owner, which is this sidecar,
  // removes those of others.
  if (fs::create_directories(path, error)) chmod(path.c_str(), 01777);
  const int directory = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return absl::ErrnoToStatus(errno, path);
  return directory;
}

std::string_view What(FailureStep step) {
  switch (step) {
    case FailureStep::kCreate:
    case FailureStep::kPublish:
      return "its ring file could not be created";
    case FailureStep::kReserve:
      return "there is no space for its ring file";
    case FailureStep::kMap:
      return "there is no address space left for its ring file";
    case FailureStep::kThreadKey:
      return "the program has no thread-specific data keys left";
  }
  return "its ring file could not be created (unknown step)";
}

std::string_view Remedy(FailureStep step, int error) {
  if (step == FailureStep::kMap) return "; raise the program's address-space limit (ulimit -v)";
  if (error == EFBIG) return "; raise the program's limit on the size of files (ulimit -f)";
  if (error == ENOSPC || error == EDQUOT)
    return "; enlarge the shared volume and restart the program";
  if (error == EACCES || error == EROFS || error == EPERM)
    return "; let the program's user write to the shared volume";
  return "";
}

// Returns the parent's process ID; 0 if the process has ended.
std::uint32_t ParentOf(std::uint32_t pid) {
  std::ifstream stat(StrCat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(stat, text);
  // The line is "PID (NAME) STATE PARENT ...". NAME may contain any character, so the search starts
  // behind the last ')'.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return 0;
  return static_cast<std::uint32_t>(std::strtoul(text.c_str() + name_end + 4, nullptr, 10));
}

template <typename Sink>
void ForEachFailure(int file, const Sink& sink) {
  wire::Failure failure{};
  constexpr auto kSize = static_cast<off_t>(sizeof failure);
  for (off_t at = 0; at < static_cast<off_t>(wire::kMaxFailures) * kSize; at += kSize) {
    if (pread(file, &failure, sizeof failure, at) != kSize) return;
    if (failure.magic == wire::kFailureMagic) sink(at, failure, wire::ByteIsLocked(file, at));
  }
}

FailedProgram Explain(const wire::Failure& failure) {
  // The kernel cuts a program's name within a character.
  const std::string_view program(failure.program, strnlen(failure.program, sizeof failure.program));
  const auto step = static_cast<FailureStep>(failure.step);
  const auto error = static_cast<int>(failure.error);
  std::array<char, wire::kContainerBytes + 1> container{};
  std::copy_n(failure.container, wire::kContainerBytes, container.begin());
  return {container.data(), StrCat(CutUtf8(program, sizeof failure.program), " ", failure.pid),
          StrCat(What(step), ": ", std::generic_category().message(error), Remedy(step, error))};
}

// The space that the file takes on its volume.
std::uint64_t BytesOf(const std::string& path) {
  struct stat of = {};
  return stat(path.c_str(), &of) == 0 ? static_cast<std::uint64_t>(of.st_blocks) * 512 : 0;
}

}  // namespace

wire::Orders NoOrders() {
  wire::Orders orders{};
  orders.magic = wire::kMagic;
  orders.version = wire::kVersion;
  orders.filter = ~0u;
  return orders;
}

absl::StatusOr<std::unique_ptr<AgentDirectory>> AgentDirectory::Own(const std::string& path) {
  const absl::StatusOr<int> directory = OpenDirectory(path);
  if (!directory.ok()) return directory.status();
  if (flock(*directory, LOCK_EX | LOCK_NB) != 0) {
    close(*directory);
    return absl::FailedPreconditionError(
        StrCat("another sidecar serves the programs of ", path,
               "; use that one, give this one a directory of its own (--agent-dir, and STROBE_DIR "
               "of its programs), or let it serve only the program that starts it "
               "(--agent-only-parent)"));
  }
  std::unique_ptr<AgentDirectory> owned(new AgentDirectory(path, *directory, std::nullopt));
  owned->CleanUp();
  owned->ReserveFailures();
  return owned;
}

absl::StatusOr<std::unique_ptr<AgentDirectory>> AgentDirectory::Join(const std::string& path,
                                                                     std::uint32_t pid) {
  const absl::StatusOr<int> directory = OpenDirectory(path);
  if (!directory.ok()) return directory.status();
  close(*directory);
  return std::unique_ptr<AgentDirectory>(new AgentDirectory(path, -1, pid));
}

AgentDirectory::~AgentDirectory() {
  if (lock_ < 0) return;
  Order(NoOrders());
  close(lock_);
}

// A guest is a child of the process that it serves, so both see the same process IDs.
bool AgentDirectory::Concerns(const wire::RingFile& file, bool forked_from_ours) const {
  if (!pid_ || forked_from_ours || file.header()->parent_pid == *pid_) return true;
  std::uint32_t pid = file.header()->pid;
  for (int generation = 0; generation < kMaxGenerations && pid > 1; ++generation) {
    if (pid == *pid_) return true;
    pid = ParentOf(pid);
  }
  return false;
}

void AgentDirectory::KeepEnded(Nanos time, std::uint64_t most_bytes) {
  keep_ended_ = time;
  most_ended_bytes_ = most_bytes;
}

bool AgentDirectory::Keeps(const OpenedRings& opened) const {
  if (!keeps_ended() || !WasKilled(opened)) return false;
  const wire::RingFile& file = opened.rings.file;
  const MutexLock lock(&ended_mutex_);
  const std::uint64_t now = wire::MonotonicNs();
  const auto [found, is_new] = kept_.try_emplace(file.path(), KeptFile{now, 0});
  if (is_new) {
    found->second.bytes = BytesOf(file.path());
    ForgetEnded(file.path());
  } else if (now - found->second.since >= static_cast<std::uint64_t>(keep_ended_.count())) {
    kept_.erase(found);
  }
  return kept_.contains(file.path());
}

// Removes the oldest files until the rest is within the limits. `newest`, which was added last, is
// dropped only if it exceeds the limit by itself.
void AgentDirectory::ForgetEnded(const std::string& newest) const {
  constexpr std::size_t kMaxKept = 8;
  const auto bytes = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ended_mutex_) {
    std::uint64_t sum = 0;
    for (const auto& [path, ended] : kept_) sum += ended.bytes;
    return sum;
  };
  while (!kept_.empty() && (kept_.size() > kMaxKept || bytes() > most_ended_bytes_)) {
    const auto oldest =
        std::min_element(kept_.begin(), kept_.end(), [&](const auto& a, const auto& b) {
          return std::pair(a.first == newest, a.second.since) <
                 std::pair(b.first == newest, b.second.since);
        });
    if (oldest->first != newest) RemoveRings(oldest->first);
    kept_.erase(oldest);
  }
}

// A younger file may belong to a capture that has not found it yet.
bool AgentDirectory::RemoveIfDead(OpenedRings& opened) const {
  constexpr std::uint64_t kMinAgeNs = 60'000'000'000;
  if (pid_ || opened.lives || opened.error != wire::RingFileError::kNone) return false;
  wire::RingFile& file = opened.rings.file;
  if (file.header()->born_ns + kMinAgeNs > wire::MonotonicNs() || file.HasHeirs() ||
      Keeps(opened) || !file.Lease())
    return false;
  RemoveRings(file.path());
  return true;
}

void AgentDirectory::CleanUp() const {
  Order(NoOrders());
  for (const std::string& path : RingFiles(path_)) {
    OpenedRings opened = OpenRings(path);
    wire::RingFile& file = opened.rings.file;
    // A program that a guest currently records is left to the guest.
    if (opened.error != wire::RingFileError::kNone || !file.Lease()) continue;
    for (std::size_t i = 0; i < wire::kWishers; ++i) file.Wish(static_cast<wire::Wisher>(i), 0);
    file.header()->device_control.store(0);
    file.header()->attend_until.store(0);
    file.WakeProgram();
  }
  RemoveFinishedTraces();
}

// Removes traces that an earlier owner asked for and did not live to read.
void AgentDirectory::RemoveFinishedTraces() const {
  constexpr int kMaxEntries = 10'000;  // Anybody may create files here.
  std::error_code error;
  fs::directory_iterator entry(path_, error);
  for (int i = 0; !error && entry != fs::directory_iterator() && i < kMaxEntries; ++i) {
    const std::string name = entry->path().filename().native();
    if (IsFileName(name) && (name.ends_with(".xplane.pb") || name.ends_with(".pt.trace.json")))
      unlink(entry->path().c_str());
    entry.increment(error);
  }
}

// Reserves space in advance, so that programs can write to it on a full volume.
void AgentDirectory::ReserveFailures() const {
  // Anybody may have created it, also as a FIFO, which would block.
  const int file =
      openat(lock_, "failures", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (file < 0) return;
  fchmod(file, 0666);
  fallocate(file, 0, 0, wire::kMaxFailures * sizeof(wire::Failure));
  close(file);
}

void AgentDirectory::Order(const wire::Orders& orders) const {
  if (lock_ < 0) return;
  const bool nothing =
      orders.devices == 0 && std::all_of(orders.wishes.begin(), orders.wishes.end(),
                                         [](std::uint32_t level) { return level == 0; });
  if (nothing) {
    unlinkat(lock_, "orders", 0);
    return;
  }
  unlinkat(lock_, "orders.new", 0);  // Whatever anybody has put there.
  const int file =
      openat(lock_, "orders.new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  const bool written =
      file >= 0 && fchmod(file, 0644) == 0 && write(file, &orders, sizeof orders) == sizeof orders;
  if (file >= 0) close(file);
  if (!written || renameat(lock_, "orders.new", lock_, "orders") != 0) {
    LogWarning("programs that start during a capture are recorded late",
               {{"directory", path_}, {"error", std::generic_category().message(errno)}});
    unlinkat(lock_, "orders.new", 0);
    unlinkat(lock_, "orders", 0);
  }
}

int AgentDirectory::OpenFailures() const {
  return lock_ < 0 ? -1 : openat(lock_, "failures", O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

std::vector<FailedProgram> AgentDirectory::Failures(std::uint64_t since_ns) const {
  std::vector<FailedProgram> failed;
  const int file = OpenFailures();
  if (file < 0) return failed;
  ForEachFailure(file, [&](off_t, const wire::Failure& failure, bool lives) {
    if ((lives || failure.at_ns >= since_ns) && failed.size() < kMaxFailedPrograms)
      failed.push_back(Explain(failure));
  });
  close(file);
  return failed;
}

void AgentDirectory::ForgetFailures() const {
  const int file = OpenFailures();
  if (file < 0) return;
  if (wire::TryLockByte(file, F_WRLCK, wire::kFailureGuardByte)) {
    // Overwrites the records instead of truncating the file: on a full volume the space could not
    // be reserved again.
    constexpr wire::Failure kFree{};
    ForEachFailure(file, [&](off_t at, const wire::Failure&, bool lives) {
      if (!lives) (void)!pwrite(file, &kFree, sizeof kFree, at);
    });
  }
  close(file);
}

}  // namespace strobe::source
