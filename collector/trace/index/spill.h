// Room for data in a file without a name. Where memory is short, the kernel writes it out, which it
// cannot do with other memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"

namespace strobe::index {

// Safe for concurrent use. Must outlive what it gives out.
class Spill {
 public:
  static constexpr std::size_t kPiece = 128 << 10;

  // The file is in `directory`, and gone when this object is.
  static absl::StatusOr<std::unique_ptr<Spill>> Create(const std::string& directory);
  ~Spill();
  Spill(const Spill&) = delete;
  Spill& operator=(const Spill&) = delete;

  // Room for kPiece bytes; null if the disk is full.
  char* Take();
  // Takes such room back.
  void Give(char* piece);

 private:
  explicit Spill(FileDescriptor file) : file_(std::move(file)) {}
  void AddSegment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FileDescriptor file_;
  Mutex mutex_;
  std::vector<char*> segments_ ABSL_GUARDED_BY(mutex_);
  std::vector<char*> free_ ABSL_GUARDED_BY(mutex_);
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strobe::index
