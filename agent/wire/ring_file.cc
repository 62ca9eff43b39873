#include "agent/wire/ring_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <utility>

#include "agent/wire/file_lock.h"
#include "agent/wire/ticks.h"

namespace strobe::wire {
namespace {

// The number that `text` is; -1 if it is none or has more than nine digits.
std::int32_t NumberOf(const char* text) {
  constexpr int kMaxDigits = 9;
  std::int32_t number = 0;
  int digits = 0;
  for (; text != nullptr && *text >= '0' && *text <= '9' && digits < kMaxDigits; ++text, ++digits)
    number = number * 10 + (*text - '0');
  return digits > 0 && *text == '\0' ? number : -1;
}

std::int32_t FirstNumber(std::initializer_list<const char*> variables) {
  for (const char* name : variables) {
    if (const std::int32_t number = NumberOf(std::getenv(name)); number >= 0) return number;
  }
  return -1;
}

// The bytes of the file that are locked.
constexpr off_t kLifeByte = 0;   // Exclusive, by the program while it lives.
constexpr off_t kHeirByte = 1;   // Shared, by forked children that have no file of their own.
constexpr off_t kLeaseByte = 2;  // Exclusive, by the sidecar that records the program.
constexpr char kContainerMark = '@';

template <std::size_t kSize>
void CopyText(std::string_view text, char (&to)[kSize]) {
  const std::size_t size = std::min(text.size(), kSize - 1);
  std::copy_n(text.begin(), size, to);
  std::memset(to + size, 0, kSize - size);
}

bool ReserveBytes(int fd, std::uint64_t offset, std::uint64_t bytes) {
  int error = EINTR;
  while (error == EINTR)
    error = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  errno = error;
  return error == 0;
}

}  // namespace

JobRanks OwnJobRanks() {
  return {.rank = FirstNumber(
              {"RANK", "JAX_PROCESS_ID", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "TPU_WORKER_ID"}),
          .local_rank = FirstNumber({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}),
          .world_size = FirstNumber(
              {"WORLD_SIZE", "JAX_NUM_PROCESSES", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"})};
}

std::uint64_t BeganIn(std::string_view stat) {
  constexpr int kName = 2, kBegan = 22;  // The numbers of the fields; see proc(5).
  // The name may have any character, so that the fields are counted from its last parenthesis.
  std::size_t at = stat.rfind(')');
  for (int field = kName; field < kBegan && at != std::string_view::npos; ++field)
    at = stat.find(' ', at + 1);
  std::uint64_t began = 0;
  if (at != std::string_view::npos)
    (void)std::from_chars(stat.data() + at + 1, stat.data() + stat.size(), began);
  return began;
}

std::uint64_t ProcessBegan() {
  const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 1024> text{};
  const ssize_t got = read(file, text.data(), text.size());
  close(file);
  return BeganIn(std::string_view(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0));
}

std::string OwnContainer() {
  const char* variable = std::getenv("STROBE_CONTAINER");
  const std::string name = variable == nullptr ? "" : variable;
  const bool label =
      name.size() < kContainerBytes && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
      });
  return label ? name : "";
}

std::string ContainerOf(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::size_t mark = name.find(kContainerMark);
  return mark == std::string::npos ? "" : name.substr(0, mark);
}

RingFile& RingFile::operator=(RingFile&& other) noexcept {
  if (this == &other) return *this;
  Close();
  RingMemory::operator=(static_cast<RingMemory&&>(other));
  path_ = std::move(other.path_);
  fd_ = std::exchange(other.fd_, -1);
  device_ = other.device_;
  inode_ = other.inode_;
  return *this;
}

void RingFile::Close() {
  Unmap();
  if (OwnsDescriptor()) close(fd_);
  fd_ = -1;
}

bool RingFile::Identify(struct stat& status) {
  if (fstat(fd_, &status) != 0) return false;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  return true;
}

RingFile::Created RingFile::Create(const std::string& directory, const RingFileShape& shape,
                                   std::string_view forked_from) {
  Created created;
  RingFile& file = created.file;
  const RingLayout layout = RingLayout::Of(shape);

  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const std::string container = OwnContainer();
  file.path_ = directory + "/" + (container.empty() ? "" : container + kContainerMark) +
               std::to_string(getpid()) + "-" + std::to_string(now.tv_sec) + "." +
               std::to_string(now.tv_nsec) + ".rings";
  // Created under a temporary name, so that a sidecar never sees an incomplete header.
  const std::string hidden = file.path_ + ".new";
  const auto failed = [&](FailureStep step) {
    const int error = errno;
    unlink(hidden.c_str());
    return Created{.file = {}, .step = step, .error = error};
  };
  file.fd_ = open(hidden.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0660);
  if (file.fd_ < 0) return {.file = {}, .step = FailureStep::kCreate, .error = errno};
  struct stat status = {};
  if (!file.Identify(status)) return failed(FailureStep::kCreate);
  fchmod(file.fd_,
         0666);  // The sidecar usually runs as another user; the volume belongs to the pod.
  if (!FileMayHave(layout.file_bytes())) {
    errno = EFBIG;
    return failed(FailureStep::kCreate);
  }
  if (ftruncate(file.fd_, static_cast<off_t>(layout.file_bytes())) != 0 ||
      !TryLockByte(file.fd_, F_WRLCK, kLifeByte))
    return failed(FailureStep::kCreate);
  // Reserves the pages that the sidecar reads before a ring is in use.
  if (!ReserveBytes(file.fd_, 0, kHeaderBytes) ||
      !ReserveBytes(file.fd_, layout.device_offset, kHeaderBytes))
    return failed(FailureStep::kReserve);
  if (!file.MapNew(file.fd_, layout)) return failed(FailureStep::kMap);

  FileHeader* const header = file.header();
  header->pid = static_cast<std::uint32_t>(getpid());
  header->parent_pid = static_cast<std::uint32_t>(getppid());
  header->tick_kind = BestTicks();
  header->born_ns = MonotonicNs();
  header->process_began = static_cast<std::uint32_t>(ProcessBegan());
  const JobRanks ranks = OwnJobRanks();
  header->rank = ranks.rank;
  header->local_rank = ranks.local_rank;
  header->world_size = ranks.world_size;
  header->filter = ~0u;
  CopyText(forked_from, header->forked_from);
  const int comm = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
  if (comm >= 0) {
    const ssize_t got = read(comm, header->program, kProgramBytes - 1);
    if (got > 0 && header->program[got - 1] == '\n') header->program[got - 1] = '\0';
    close(comm);
  }
  return created;
}

bool RingFile::Publish() {
  const std::string hidden = path_ + ".new";
  if (rename(hidden.c_str(), path_.c_str()) == 0) return true;
  const int error = errno;
  unlink(hidden.c_str());
  errno = error;
  return false;
}

bool RingFile::OwnsDescriptor() const {
  if (fd_ < 0) return false;
  struct stat status = {};
  return fstat(fd_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

bool RingFile::RenewDescriptor() {
  if (OwnsDescriptor()) return true;
  fd_ = open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (OwnsDescriptor()) return true;
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  return false;
}

bool RingFile::Inherit() {
  if (OwnsDescriptor()) close(fd_);
  fd_ = -1;
  return RenewDescriptor() && TryLockByte(fd_, F_RDLCK, kHeirByte) && MapInPlace(fd_);
}

void RingFile::ReplaceBy(RingFile other) {
  if (OwnsDescriptor()) close(fd_);
  fd_ = -1;
  if (!ReplaceMemoryBy(other)) return;
  path_ = std::move(other.path_);
  fd_ = std::exchange(other.fd_, -1);
  device_ = other.device_;
  inode_ = other.inode_;
}

bool RingFile::Leased() const { return OwnsDescriptor() && ByteIsLocked(fd_, kLeaseByte); }

bool RingFile::MayLive(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  // These errors mean that the file is gone or is not a regular file. After any other error the
  // program may live.
  if (file < 0) return errno != ENOENT && errno != ELOOP && errno != EISDIR && errno != ENXIO;
  struct stat status = {};
  const bool lives =
      fstat(file, &status) == 0 && S_ISREG(status.st_mode) && ByteIsLocked(file, kLifeByte);
  close(file);
  return lives;
}

RingFile RingFile::Map(const std::string& path) {
  RingFile file;
  file.path_ = path;
  file.fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat status = {};
  if (file.fd_ < 0 || !file.Identify(status)) return {};
  if (!S_ISREG(status.st_mode) || status.st_size < static_cast<off_t>(kHeaderBytes) ||
      !file.MapOpened(file.fd_, static_cast<std::size_t>(status.st_size)))
    return {};
  return file;
}

RingFile RingFile::Open(const std::string& path) {
  RingFile file = Map(path);
  if (file.Check() != RingFileError::kNone) return {};
  return file;
}

bool RingFile::ProgramLives() const { return ByteIsLocked(fd_, kLifeByte); }

bool RingFile::HasHeirs() const { return ByteIsLocked(fd_, kHeirByte); }

bool RingFile::Lease() { return TryLockByte(fd_, F_WRLCK, kLeaseByte); }

std::string_view RingFile::name() const {
  const std::string_view path = path_;
  return path.substr(path.rfind('/') + 1);
}

bool RingFile::Reserve(std::uint32_t index, std::uint64_t words) {
  return RenewDescriptor() && ReserveBytes(fd_, layout().ring_offset(index),
                                           sizeof(RingHeader) + std::min(words, ring_words()) * 8);
}

bool RingFile::ReserveDevice() {
  return RenewDescriptor() && ReserveBytes(fd_, layout().device_offset, layout().device_bytes());
}

}  // namespace strobe::wire
