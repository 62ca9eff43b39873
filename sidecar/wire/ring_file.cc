#include "sidecar/wire/ring_file.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "sidecar/wire/ticks.h"

namespace strobe::wire {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr char kContainerMark = '@';
constexpr std::uint32_t kMostRings = 65'536;
constexpr std::uint64_t kMostWords = 1ull << 28;

std::uint64_t RoundWords(std::uint64_t words) {
  return std::bit_ceil(std::min(std::max<std::uint64_t>(words, 4 * kBlockWords), kMostWords));
}

// A header and its data, in whole pages.
std::uint64_t RingBytes(std::uint64_t words) {
  return (sizeof(RingHeader) + words * 8 + kPage - 1) / kPage * kPage;
}

bool GoodWords(std::uint64_t words) {
  return std::has_single_bit(words) && words >= 4 * kBlockWords && words <= kMostWords;
}

// Held by the program on the whole file; of the open file, so that no other close() drops it and
// another container can ask for it.
struct flock WholeFile(short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

// In a pod with several trainers injection says in which of them a program is.
std::string ContainerPrefix() {
  const char* name = std::getenv("STROBE_CONTAINER");
  if (name == nullptr || *name == '\0') return "";
  std::string prefix = name;
  const bool label = prefix.size() <= 63 && std::all_of(prefix.begin(), prefix.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
                     });
  return label ? prefix + kContainerMark : "";
}

}  // namespace

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
  size_ = std::exchange(other.size_, 0);
  header_ = std::exchange(other.header_, nullptr);
  most_rings_ = other.most_rings_;
  ring_words_ = other.ring_words_;
  ring_stride_ = other.ring_stride_;
  rings_offset_ = other.rings_offset_;
  device_words_ = other.device_words_;
  device_offset_ = other.device_offset_;
  return *this;
}

void RingFile::Close() {
  if (header_ != nullptr) munmap(header_, size_);
  if (fd_ >= 0) close(fd_);
  header_ = nullptr;
  fd_ = -1;
}

void RingFile::ReplaceBy(RingFile other) {
  FileHeader* const place = header_;
  const std::size_t size = size_;
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  if (other && other.size_ == size &&
      mremap(other.header_, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place) {
    other.header_ = nullptr;
    path_ = std::move(other.path_);
    fd_ = std::exchange(other.fd_, -1);
    return;
  }
  mmap(place, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
       -1, 0);
}

bool RingFile::Map(std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) return false;
  size_ = size;
  header_ = static_cast<FileHeader*>(memory);
  return true;
}

RingFile RingFile::Create(const std::string& directory, const RingFileShape& shape) {
  RingFile file;
  file.most_rings_ = std::min(std::max(shape.most_rings, 1u), kMostRings);
  file.ring_words_ = RoundWords(shape.ring_words);
  file.device_words_ = RoundWords(shape.device_words);
  file.rings_offset_ = kPage;
  file.ring_stride_ = RingBytes(file.ring_words_);
  file.device_offset_ = file.rings_offset_ + file.most_rings_ * file.ring_stride_;
  const std::uint64_t size = file.device_offset_ + RingBytes(file.device_words_);

  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  file.path_ = directory + "/" + ContainerPrefix() + std::to_string(getpid()) + "-" +
               std::to_string(now.tv_sec) + "." + std::to_string(now.tv_nsec) + ".rings";
  // Beside its place until it is whole: a sidecar must not meet a header that is half there.
  const std::string hidden = file.path_ + ".new";
  file.fd_ = open(hidden.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0660);
  if (file.fd_ < 0) return {};
  fchmod(file.fd_, 0666);  // The sidecar is usually another user; the volume belongs to the pod.
  struct flock lock = WholeFile(F_WRLCK);
  // The header's page for certain, the rings when they are begun: until then they cost nothing.
  if (ftruncate(file.fd_, static_cast<off_t>(size)) != 0 ||
      fcntl(file.fd_, F_OFD_SETLK, &lock) != 0 || posix_fallocate(file.fd_, 0, kPage) != 0 ||
      !file.Map(size)) {
    unlink(hidden.c_str());
    return {};
  }
  FileHeader* header = new (file.header_) FileHeader{};
  header->magic = kMagic;
  header->version = kVersion;
  header->pid = static_cast<std::uint32_t>(getpid());
  header->tick_kind = BestTicks();
  header->most_rings = file.most_rings_;
  header->rings_offset = file.rings_offset_;
  header->ring_stride = file.ring_stride_;
  header->ring_words = file.ring_words_;
  header->device_offset = file.device_offset_;
  header->device_words = file.device_words_;
  header->filter = ~0u;
  const int comm = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
  if (comm >= 0) {
    const ssize_t got = read(comm, header->program, kProgramBytes - 1);
    if (got > 0 && header->program[got - 1] == '\n') header->program[got - 1] = '\0';
    close(comm);
  }
  if (rename(hidden.c_str(), file.path_.c_str()) != 0) {
    unlink(hidden.c_str());
    return {};
  }
  return file;
}

RingFile RingFile::Open(const std::string& path) {
  RingFile file;
  file.path_ = path;
  file.fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  struct stat status = {};
  if (file.fd_ < 0 || fstat(file.fd_, &status) != 0 || !S_ISREG(status.st_mode)) return {};
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < kPage || !file.Map(size)) return {};
  const FileHeader& header = *file.header_;
  if (header.magic != kMagic || header.version != kVersion) return {};
  file.most_rings_ = header.most_rings;
  file.ring_words_ = header.ring_words;
  file.ring_stride_ = header.ring_stride;
  file.rings_offset_ = header.rings_offset;
  file.device_words_ = header.device_words;
  file.device_offset_ = header.device_offset;
  const bool fits =
      file.most_rings_ >= 1 && file.most_rings_ <= kMostRings && GoodWords(file.ring_words_) &&
      GoodWords(file.device_words_) &&
      file.ring_stride_ >= sizeof(RingHeader) + file.ring_words_ * 8 && file.ring_stride_ <= size &&
      file.ring_stride_ % 128 == 0 && file.rings_offset_ >= sizeof(FileHeader) &&
      file.rings_offset_ <= size && file.rings_offset_ % 128 == 0 &&
      file.device_offset_ % 128 == 0 && file.device_offset_ >= file.rings_offset_ &&
      file.device_offset_ <= size &&
      file.most_rings_ <= (file.device_offset_ - file.rings_offset_) / file.ring_stride_ &&
      RingBytes(file.device_words_) <= size - file.device_offset_;
  if (!fits) return {};
  return file;
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

bool RingFile::Reserve(std::uint32_t index) const {
  return posix_fallocate(fd_, static_cast<off_t>(rings_offset_ + index * ring_stride_),
                         static_cast<off_t>(ring_stride_)) == 0;
}

bool RingFile::ReserveDevice() const {
  return posix_fallocate(fd_, static_cast<off_t>(device_offset_),
                         static_cast<off_t>(RingBytes(device_words_))) == 0;
}

bool RingFile::ProgramLives() const {
  struct flock lock = WholeFile(F_WRLCK);
  return fcntl(fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

std::string RingFile::ProgramName() const {
  std::array<char, kProgramBytes + 1> name{};
  std::copy_n(header_->program, kProgramBytes, name.begin());
  return name.data();
}

void RingFile::WakeProgram() const {
  syscall(SYS_futex, &header_->device_control, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace strobe::wire
