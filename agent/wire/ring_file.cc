#include "agent/wire/ring_file.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <new>
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

constexpr std::uint64_t kPage = 4096;
static_assert(kHeaderBytes == kPage);
constexpr std::uint32_t kMaxRings = 4096;
constexpr std::uint64_t kMaxWords = 1ull << 28;

// The bytes of the file that are locked.
constexpr off_t kLifeByte = 0;   // Exclusive, by the program while it lives.
constexpr off_t kHeirByte = 1;   // Shared, by forked children that have no file of their own.
constexpr off_t kLeaseByte = 2;  // Exclusive, by the sidecar that records the program.
constexpr char kContainerMark = '@';

std::uint64_t RoundWords(std::uint64_t words) {
  return std::bit_ceil(std::min(std::max<std::uint64_t>(words, 4 * kBlockWords), kMaxWords));
}

// The size of a ring's header and data, rounded up to whole pages.
std::uint64_t RingBytes(std::uint64_t words) {
  return (sizeof(RingHeader) + words * 8 + kPage - 1) / kPage * kPage;
}

bool GoodWords(std::uint64_t words) {
  return std::has_single_bit(words) && words >= 4 * kBlockWords && words <= kMaxWords;
}

template <std::size_t kSize>
void CopyText(std::string_view text, char (&to)[kSize]) {
  const std::size_t size = std::min(text.size(), kSize - 1);
  std::copy_n(text.begin(), size, to);
  std::memset(to + size, 0, kSize - size);
}

template <std::size_t kSize>
std::string TextOf(const char (&from)[kSize]) {
  std::array<char, kSize + 1> text{};
  std::copy_n(from, kSize, text.begin());
  return text.data();
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
  path_ = std::move(other.path_);
  fd_ = std::exchange(other.fd_, -1);
  device_ = other.device_;
  inode_ = other.inode_;
  size_ = std::exchange(other.size_, 0);
  header_ = std::exchange(other.header_, nullptr);
  max_rings_ = other.max_rings_;
  ring_words_ = other.ring_words_;
  ring_stride_ = other.ring_stride_;
  rings_offset_ = other.rings_offset_;
  device_words_ = other.device_words_;
  device_offset_ = other.device_offset_;
  return *this;
}

void RingFile::Close() {
  if (header_ != nullptr) munmap(header_, size_);
  if (OwnsDescriptor()) close(fd_);
  header_ = nullptr;
  fd_ = -1;
}

bool RingFile::Identify(struct stat& status) {
  if (fstat(fd_, &status) != 0) return false;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  return true;
}

bool RingFile::MapOpened(std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) return false;
  size_ = size;
  header_ = static_cast<FileHeader*>(memory);
  return true;
}

RingFile::Created RingFile::Create(const std::string& directory, const RingFileShape& shape,
                                   std::string_view forked_from) {
  Created created;
  RingFile& file = created.file;
  file.max_rings_ = std::min(std::max(shape.max_rings, 1u), kMaxRings);
  file.ring_words_ = RoundWords(shape.ring_words);
  file.device_words_ = RoundWords(shape.device_words);
  file.rings_offset_ = kPage;
  file.ring_stride_ = RingBytes(file.ring_words_);
  file.device_offset_ = file.rings_offset_ + file.max_rings_ * file.ring_stride_;
  const std::uint64_t size = file.device_offset_ + RingBytes(file.device_words_);

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
  if (!FileMayHave(size)) {
    errno = EFBIG;
    return failed(FailureStep::kCreate);
  }
  if (ftruncate(file.fd_, static_cast<off_t>(size)) != 0 ||
      !TryLockByte(file.fd_, F_WRLCK, kLifeByte))
    return failed(FailureStep::kCreate);
  // Reserves the pages that the sidecar reads before a ring is in use.
  if (!file.ReserveBytes(0, kPage) || !file.ReserveBytes(file.device_offset_, kPage))
    return failed(FailureStep::kReserve);
  if (!file.MapOpened(size)) return failed(FailureStep::kMap);

  FileHeader* header = new (file.header_) FileHeader{};
  header->magic = kMagic;
  header->version = kVersion;
  header->pid = static_cast<std::uint32_t>(getpid());
  header->parent_pid = static_cast<std::uint32_t>(getppid());
  header->tick_kind = BestTicks();
  header->max_rings = file.max_rings_;
  header->rings_offset = file.rings_offset_;
  header->ring_stride = file.ring_stride_;
  header->ring_words = file.ring_words_;
  header->device_offset = file.device_offset_;
  header->device_words = file.device_words_;
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
  return RenewDescriptor() && TryLockByte(fd_, F_RDLCK, kHeirByte) &&
         mmap(header_, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, 0) == header_;
}

void RingFile::ReplaceBy(RingFile other) {
  FileHeader* const place = header_;
  const std::size_t size = size_;
  if (OwnsDescriptor()) close(fd_);
  fd_ = -1;
  if (other && other.size_ == size &&
      mremap(other.header_, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place) {
    other.header_ = nullptr;
    path_ = std::move(other.path_);
    fd_ = std::exchange(other.fd_, -1);
    device_ = other.device_;
    inode_ = other.inode_;
    return;
  }
  static_cast<void>(mmap(place, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0));
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
  if (!S_ISREG(status.st_mode) || status.st_size < static_cast<off_t>(kPage) ||
      !file.MapOpened(static_cast<std::size_t>(status.st_size)))
    return {};
  return file;
}

RingFileError RingFile::Check() {
  if (header_ == nullptr) return RingFileError::kUnreadable;
  const FileHeader& header = *header_;
  if (header.magic != kMagic) return RingFileError::kNotOurs;
  if (header.version != kVersion) return RingFileError::kOtherVersion;
  max_rings_ = header.max_rings;
  ring_words_ = header.ring_words;
  ring_stride_ = header.ring_stride;
  rings_offset_ = header.rings_offset;
  device_words_ = header.device_words;
  device_offset_ = header.device_offset;
  const std::uint64_t size = size_;
  const bool fits =
      max_rings_ >= 1 && max_rings_ <= kMaxRings && GoodWords(ring_words_) &&
      GoodWords(device_words_) && ring_stride_ >= sizeof(RingHeader) + ring_words_ * 8 &&
      ring_stride_ <= size && ring_stride_ % 128 == 0 && rings_offset_ >= kHeaderBytes &&
      rings_offset_ <= size && rings_offset_ % 128 == 0 && device_offset_ % 128 == 0 &&
      device_offset_ >= rings_offset_ && device_offset_ <= size &&
      max_rings_ <= (device_offset_ - rings_offset_) / ring_stride_ &&
      RingBytes(device_words_) <= size - device_offset_ &&
      (header.tick_kind == TickKind::kCycles || header.tick_kind == TickKind::kMonotonicNs);
  return fits ? RingFileError::kNone : RingFileError::kDamaged;
}

RingFile RingFile::Open(const std::string& path) {
  RingFile file = Map(path);
  if (file.Check() != RingFileError::kNone) return {};
  return file;
}

bool RingFile::ProgramLives() const { return ByteIsLocked(fd_, kLifeByte); }

bool RingFile::HasHeirs() const { return ByteIsLocked(fd_, kHeirByte); }

bool RingFile::Lease() { return TryLockByte(fd_, F_WRLCK, kLeaseByte); }

void RingFile::WakeProgram() const {
  syscall(SYS_futex, &header_->device_control, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void RingFile::Wish(Wisher wisher, std::uint32_t level) const {
  header_->wishes[static_cast<std::size_t>(wisher)].store(level);
  const auto highest = [this] {
    std::uint32_t most = 0;
    for (const auto& wish : header_->wishes) most = std::max(most, wish.load());
    return most;
  };
  // Other wishers may run this at the same time. The last one sees all wishes, so the result is
  // correct.
  for (int tries = 0; tries < 100; ++tries) {
    const std::uint32_t most = highest();
    header_->control.store(most);
    if (highest() == most) return;
  }
}

std::string RingFile::ProgramName() const { return TextOf(header_->program); }

std::string RingFile::ForkedFrom() const { return TextOf(header_->forked_from); }

std::string_view RingFile::name() const {
  const std::string_view path = path_;
  return path.substr(path.rfind('/') + 1);
}

RingHeader* RingFile::ring(std::uint32_t index) const {
  return reinterpret_cast<RingHeader*>(reinterpret_cast<char*>(header_) + rings_offset_ +
                                       index * ring_stride_);
}

std::atomic<std::uint64_t>* RingFile::data(std::uint32_t index) const {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(ring(index) + 1);
}

RingHeader* RingFile::device_ring() const {
  return reinterpret_cast<RingHeader*>(reinterpret_cast<char*>(header_) + device_offset_);
}

std::atomic<std::uint64_t>* RingFile::device_data() const {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(device_ring() + 1);
}

bool RingFile::ReserveBytes(std::uint64_t offset, std::uint64_t bytes) const {
  int error = EINTR;
  while (error == EINTR)
    error = posix_fallocate(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  errno = error;
  return error == 0;
}

bool RingFile::Reserve(std::uint32_t index, std::uint64_t words) {
  return RenewDescriptor() && ReserveBytes(rings_offset_ + index * ring_stride_,
                                           sizeof(RingHeader) + std::min(words, ring_words_) * 8);
}

bool RingFile::ReserveDevice() {
  return RenewDescriptor() && ReserveBytes(device_offset_, RingBytes(device_words_));
}

}  // namespace strobe::wire
