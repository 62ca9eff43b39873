// A stored object as a ByteSource.
#pragma once
#include <future>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "collector/store/object_store.h"
#include "common/base/mutex.h"

namespace strobe::storage {

// Reads whole blocks, and a few of them ahead, so that sequential reading does not wait for round
// trips. Holds at most kAhead + 1 blocks. Reads of a block's size or more, as multipart uploads
// make in any order, bypass the blocks.
class PrefetchedBytes final : public ByteSource {
 public:
  static constexpr std::uint64_t kBlock = 8 << 20;
  static constexpr std::uint64_t kAhead = 3;

  // `store` must outlive this object.
  PrefetchedBytes(ObjectStore& store, std::string key, std::uint64_t size)
      : store_(store), key_(std::move(key)), size_(size) {}

  std::uint64_t size() const override { return size_; }
  absl::Status Read(std::uint64_t offset, std::span<char> into) const override;

 private:
  using Block = std::shared_future<absl::StatusOr<std::shared_ptr<std::vector<char>>>>;
  Block Get(std::uint64_t index) const;
  Block Fetch(std::uint64_t index) const;

  ObjectStore& store_;
  const std::string key_;
  const std::uint64_t size_;
  mutable Mutex mutex_;
  mutable std::map<std::uint64_t, Block> blocks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::storage
