#include "agent/wire/ring_memory.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <new>
#include <utility>

namespace strobe::wire {
namespace {

constexpr std::uint64_t kPage = 4096;
static_assert(kHeaderBytes == kPage);
constexpr std::uint32_t kMaxRings = 4096;
constexpr std::uint64_t kMaxWords = 1ull << 28;

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
std::string TextOf(const char (&from)[kSize]) {
  std::array<char, kSize + 1> text{};
  std::copy_n(from, kSize, text.begin());
  return text.data();
}

}  // namespace

RingLayout RingLayout::Of(const RingFileShape& shape) {
  RingLayout layout{.max_rings = std::min(std::max(shape.max_rings, 1u), kMaxRings),
                    .ring_words = RoundWords(shape.ring_words),
                    .rings_offset = kPage,
                    .device_words = RoundWords(shape.device_words)};
  layout.ring_stride = RingBytes(layout.ring_words);
  layout.device_offset = layout.ring_offset(layout.max_rings);
  return layout;
}

std::uint64_t RingLayout::device_bytes() const { return RingBytes(device_words); }

bool RingLayout::Fits(std::uint64_t size) const {
  return max_rings >= 1 && max_rings <= kMaxRings && GoodWords(ring_words) &&
         GoodWords(device_words) && ring_stride >= sizeof(RingHeader) + ring_words * 8 &&
         ring_stride <= size && ring_stride % 128 == 0 && rings_offset >= kHeaderBytes &&
         rings_offset <= size && rings_offset % 128 == 0 && device_offset % 128 == 0 &&
         device_offset >= rings_offset && device_offset <= size &&
         max_rings <= (device_offset - rings_offset) / ring_stride &&
         device_bytes() <= size - device_offset;
}

RingMemory& RingMemory::operator=(RingMemory&& other) noexcept {
  if (this == &other) return *this;
  Unmap();
  size_ = std::exchange(other.size_, 0);
  header_ = std::exchange(other.header_, nullptr);
  layout_ = other.layout_;
  return *this;
}

void RingMemory::Unmap() {
  if (header_ != nullptr) munmap(header_, size_);
  header_ = nullptr;
}

bool RingMemory::MapOpened(int fd, std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return false;
  size_ = size;
  header_ = static_cast<FileHeader*>(memory);
  return true;
}

bool RingMemory::MapNew(int fd, const RingLayout& layout) {
  if (!MapOpened(fd, layout.file_bytes())) return false;
  layout_ = layout;
  new (header_) FileHeader{};
  header_->magic = kMagic;
  header_->version = kVersion;
  header_->max_rings = layout.max_rings;
  header_->rings_offset = layout.rings_offset;
  header_->ring_stride = layout.ring_stride;
  header_->ring_words = layout.ring_words;
  header_->device_offset = layout.device_offset;
  header_->device_words = layout.device_words;
  return true;
}

bool RingMemory::MapInPlace(int fd) {
  return mmap(header_, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == header_;
}

bool RingMemory::ReplaceMemoryBy(RingMemory& other) {
  if (other && other.size_ == size_ &&
      mremap(other.header_, size_, size_, MREMAP_MAYMOVE | MREMAP_FIXED, header_) == header_) {
    other.header_ = nullptr;
    return true;
  }
  static_cast<void>(mmap(header_, size_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0));
  return false;
}

RingFileError RingMemory::Check() {
  if (header_ == nullptr) return RingFileError::kUnreadable;
  const FileHeader& header = *header_;
  if (header.magic != kMagic) return RingFileError::kNotOurs;
  if (header.version != kVersion) return RingFileError::kOtherVersion;
  layout_ = {.max_rings = header.max_rings,
             .ring_words = header.ring_words,
             .ring_stride = header.ring_stride,
             .rings_offset = header.rings_offset,
             .device_words = header.device_words,
             .device_offset = header.device_offset};
  const bool fits = layout_.Fits(size_) && (header.tick_kind == TickKind::kCycles ||
                                            header.tick_kind == TickKind::kMonotonicNs);
  return fits ? RingFileError::kNone : RingFileError::kDamaged;
}

RingHeader* RingMemory::ring(std::uint32_t index) const {
  return reinterpret_cast<RingHeader*>(reinterpret_cast<char*>(header_) +
                                       layout_.ring_offset(index));
}

std::atomic<std::uint64_t>* RingMemory::data(std::uint32_t index) const {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(ring(index) + 1);
}

RingHeader* RingMemory::device_ring() const {
  return reinterpret_cast<RingHeader*>(reinterpret_cast<char*>(header_) + layout_.device_offset);
}

std::atomic<std::uint64_t>* RingMemory::device_data() const {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(device_ring() + 1);
}

void RingMemory::WakeProgram() const {
  syscall(SYS_futex, &header_->device_control, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void RingMemory::Wish(Wisher wisher, std::uint32_t level) const {
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

std::string RingMemory::ProgramName() const { return TextOf(header_->program); }

std::string RingMemory::ForkedFrom() const { return TextOf(header_->forked_from); }

}  // namespace strobe::wire
