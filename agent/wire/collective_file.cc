#include "agent/wire/collective_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "agent/wire/file_lock.h"
#include "agent/wire/ring_file.h"
#include "agent/wire/ticks.h"

namespace strobe::wire {
namespace {

constexpr std::array<std::string_view, kCollectiveCalls> kCallNames = {
    "Other",    "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce",
    "AlltoAll", "Gather",    "Scatter",   "Send",          "Recv"};

struct ElementName {
  std::string_view library{}, framework{};
  std::uint64_t bytes = 0;
};
constexpr std::array<ElementName, kElementTypes> kElementNames = {{
    {"", "", 0},
    {"ncclInt8", "Char", 1},
    {"ncclUint8", "Byte", 1},
    {"ncclInt32", "Int", 4},
    {"ncclUint32", "Int", 4},
    {"ncclInt64", "Long", 8},
    {"ncclUint64", "Long", 8},
    {"ncclFloat16", "Half", 2},
    {"ncclFloat32", "Float", 4},
    {"ncclFloat64", "Double", 8},
    {"ncclBfloat16", "BFloat16", 2},
    {"ncclFloat8", "Float8", 1},
}};

// A file has at most so many of each, whatever its header says: a reader copies all communicators
// at each look, and a forged file must not cost it more than a few times a real one.
constexpr std::uint32_t kMostCommunicators = 1u << 10, kMostRecords = 1u << 15;
constexpr std::uint32_t kMostBytesOfOne = 1u << 12;

bool GoodSize(std::uint32_t bytes, std::size_t least) {
  return bytes >= least && bytes <= kMostBytesOfOne && bytes % 64 == 0;
}

}  // namespace

CollectiveCall CollectiveCallOf(std::string_view name) {
  const auto* const at = std::find(kCallNames.begin() + 1, kCallNames.end(), name);
  return at == kCallNames.end() ? CollectiveCall::kOther
                                : static_cast<CollectiveCall>(at - kCallNames.begin());
}

ElementType ElementTypeOf(std::string_view name) {
  for (std::size_t i = 1; i < kElementNames.size(); ++i) {
    if (kElementNames[i].library == name) return static_cast<ElementType>(i);
  }
  return name.starts_with("ncclFloat8") ? ElementType::kFloat8 : ElementType::kOther;
}

std::string_view NameOf(CollectiveCall call) {
  const auto index = static_cast<std::size_t>(call);
  return kCallNames[index < kCallNames.size() ? index : 0];
}

std::string_view NameOf(ElementType type) {
  const auto index = static_cast<std::size_t>(type);
  return kElementNames[index < kElementNames.size() ? index : 0].framework;
}

std::uint64_t BytesOf(ElementType type) {
  const auto index = static_cast<std::size_t>(type);
  return kElementNames[index < kElementNames.size() ? index : 0].bytes;
}

std::string CollectivePath(const std::string& ring_path) {
  constexpr std::string_view kRings = ".rings", kOwn = ".nccl";
  std::string path = ring_path;
  if (path.ends_with(kRings)) path.resize(path.size() - kRings.size());
  path += kOwn;
  return path;
}

CollectiveFile& CollectiveFile::operator=(CollectiveFile&& other) noexcept {
  if (this == &other) return *this;
  Close();
  header_ = std::exchange(other.header_, nullptr);
  size_ = std::exchange(other.size_, 0);
  record_bytes_ = other.record_bytes_;
  communicator_bytes_ = other.communicator_bytes_;
  max_communicators_ = other.max_communicators_;
  max_records_ = other.max_records_;
  return *this;
}

void CollectiveFile::Close() {
  if (header_ != nullptr) munmap(header_, size_);
  header_ = nullptr;
}

CollectiveFile CollectiveFile::Create(const std::string& path) {
  // Created under a temporary name, so that a sidecar never sees an incomplete header.
  const std::string hidden = path + ".new";
  const int fd = open(hidden.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0660);
  if (fd < 0) return {};
  fchmod(fd, 0666);  // The sidecar usually runs as another user; the volume belongs to the pod.
  CollectiveFile file;
  file.size_ = kCollectiveFileBytes;
  int error = FileMayHave(file.size_) ? 0 : EFBIG;
  if (error == 0) error = posix_fallocate(fd, 0, static_cast<off_t>(file.size_));
  void* memory = MAP_FAILED;
  if (error == 0) {
    memory = mmap(nullptr, file.size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) error = errno;
  }
  close(fd);
  if (memory != MAP_FAILED) {
    file.header_ = new (memory) CollectiveHeader{};
    CollectiveHeader& header = *file.header_;
    header.magic = kCollectiveMagic;
    header.version = kCollectiveVersion;
    header.pid = static_cast<std::uint32_t>(getpid());
    header.tick_kind = BestTicks();
    header.record_bytes = file.record_bytes_ = sizeof(CollectiveRecord);
    header.communicator_bytes = file.communicator_bytes_ = sizeof(CollectiveCommunicator);
    header.max_communicators = file.max_communicators_ = kCollectiveCommunicators;
    header.max_records = file.max_records_ = kCollectiveRecords;
    const TickMoment born = MonotonicMoment(header.tick_kind);
    header.born_ns = born.other_ns;
    header.born_ticks = born.ticks;
    const JobRanks ranks = OwnJobRanks();
    header.rank = ranks.rank;
    header.local_rank = ranks.local_rank;
    header.world_size = ranks.world_size;
    if (rename(hidden.c_str(), path.c_str()) == 0) return file;
    error = errno;
    file.Close();
  }
  unlink(hidden.c_str());
  errno = error;
  return {};
}

CollectiveFile CollectiveFile::Map(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return {};
  CollectiveFile file;
  struct stat status = {};
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_size >= static_cast<off_t>(kHeaderBytes)) {
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) {
      file.header_ = static_cast<CollectiveHeader*>(memory);
      file.size_ = size;
    }
  }
  close(fd);
  return file;
}

bool CollectiveFile::Check() {
  if (header_ == nullptr) return false;
  const CollectiveHeader& header = *header_;
  if (header.magic != kCollectiveMagic || header.version != kCollectiveVersion) return false;
  record_bytes_ = header.record_bytes;
  communicator_bytes_ = header.communicator_bytes;
  max_communicators_ = header.max_communicators;
  max_records_ = header.max_records;
  const bool fits =
      GoodSize(record_bytes_, sizeof(CollectiveRecord)) &&
      GoodSize(communicator_bytes_, sizeof(CollectiveCommunicator)) &&
      max_communicators_ <= kMostCommunicators && max_records_ <= kMostRecords &&
      std::has_single_bit(max_records_) &&
      kHeaderBytes + std::uint64_t{communicator_bytes_} * max_communicators_ +
              std::uint64_t{record_bytes_} * max_records_ <=
          size_ &&
      (header.tick_kind == TickKind::kCycles || header.tick_kind == TickKind::kMonotonicNs);
  return fits;
}

CollectiveCommunicator* CollectiveFile::communicator(std::uint32_t index) const {
  return reinterpret_cast<CollectiveCommunicator*>(
      At(kHeaderBytes + std::uint64_t{communicator_bytes_} * index));
}

CollectiveRecord* CollectiveFile::record(std::uint64_t number) const {
  return reinterpret_cast<CollectiveRecord*>(
      At(kHeaderBytes + std::uint64_t{communicator_bytes_} * max_communicators_ +
         std::uint64_t{record_bytes_} * (number & (max_records_ - 1))));
}

bool CollectiveFile::Read(std::uint64_t number, CollectiveCopy& to) const {
  const CollectiveRecord& from = *record(number);
  const auto get = [](const std::atomic<std::uint64_t>& word) {
    return word.load(std::memory_order_acquire);
  };
  const std::uint64_t complete = 2 * number + 2;
  if (get(from.stamp) != complete) return false;
  to.number = number;
  to.begin = get(from.begin);
  to.launched = get(from.launched);
  to.ordinal = get(from.ordinal);
  to.count = get(from.count);
  to.sequence = get(from.sequence);
  to.key = std::bit_cast<CallKey>(get(from.key));
  to.how = std::bit_cast<CollectiveHow>(get(from.how));
  // The device's times count once all channels have ended.
  const std::uint64_t ended = get(from.channels_ended);
  const bool whole = ended > 0 && ended == get(from.channels_begun) && ended >= to.how.channels;
  to.device_begin = whole ? get(from.device_begin) : 0;
  to.device_end = whole ? get(from.device_end) : 0;
  to.end_seen_ns = whole ? get(from.end_seen_ns) : 0;
  return from.stamp.load(std::memory_order_relaxed) == complete;
}

std::vector<CommunicatorCopy> CollectiveFile::Communicators() const {
  std::vector<CommunicatorCopy> all;
  const std::uint32_t used =
      std::min(header_->communicators.load(std::memory_order_acquire), max_communicators_);
  for (std::uint32_t i = 0; i < used; ++i) {
    const CollectiveCommunicator& from = *communicator(i);
    const auto get = [](const std::atomic<std::uint64_t>& word) {
      return word.load(std::memory_order_acquire);
    };
    all.push_back({.id = from.id,
                   .rank = from.rank,
                   .ranks = from.ranks,
                   .has_ended = from.ended.load(std::memory_order_acquire) != 0,
                   .name = std::string(from.name, strnlen(from.name, kCommunicatorNameBytes)),
                   .collectives = get(from.collectives),
                   .transfers = get(from.transfers),
                   .launched = get(from.launched),
                   .newest_begin = get(from.newest_begin),
                   .newest_count = get(from.newest_count),
                   .newest = std::bit_cast<CallKey>(get(from.newest_key))});
  }
  return all;
}

}  // namespace strobe::wire
