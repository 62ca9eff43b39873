#include "collector/trace/index/chunks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/strings.h"

namespace strobe::index {

namespace {

// The file grows by so much.
constexpr std::size_t kSegment = std::size_t{32} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<Spill>> Spill::Create(const std::string& directory) {
  std::string path = StrCat(directory, "/.strobe-index-XXXXXX");
  FileDescriptor file(mkostemp(path.data(), O_CLOEXEC));
  if (file.get() < 0) return absl::UnavailableError(StrCat("cannot create a file in ", directory));
  (void)unlink(path.c_str());
  return std::unique_ptr<Spill>(new Spill(std::move(file)));
}

Spill::~Spill() {
  MutexLock lock(&mutex_);
  for (char* segment : segments_) (void)munmap(segment, kSegment);
}

char* Spill::Take() {
  MutexLock lock(&mutex_);
  if (free_.empty()) AddSegment();
  if (free_.empty()) return nullptr;
  char* piece = free_.back();
  free_.pop_back();
  return piece;
}

void Spill::Give(char* piece) {
  MutexLock lock(&mutex_);
  free_.push_back(piece);
}

void Spill::AddSegment() {
  const auto begin = static_cast<off_t>(segments_.size() * kSegment);
  // Without its blocks, a full disk would kill the program when it writes to the mapping.
  if (full_ || posix_fallocate(file_.get(), begin, kSegment) != 0) {
    full_ = true;
    return;
  }
  void* mapped = mmap(nullptr, kSegment, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), begin);
  if (mapped == MAP_FAILED) {
    full_ = true;
    return;
  }
  char* segment = static_cast<char*>(mapped);
  segments_.push_back(segment);
  for (std::size_t at = kSegment; at > 0; at -= kPiece) free_.push_back(segment + at - kPiece);
}

}  // namespace strobe::index
