// Bytes that are fetched when they are first read, such as those of an object in a store. Readers
// see ordinary memory; only a bounded part of it is present at any time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"
#include "common/memory/fault_range.h"

namespace strobe {

// Fills `into` with the bytes from `offset` on. Called by several threads at once. It must
// end by itself, with an error if need be, because readers wait for it.
using Fetch = std::function<absl::Status(std::uint64_t offset, std::span<char> into)>;

struct FetchLimits {
  std::size_t block = 1 << 20;  // What one call of Fetch reads; a multiple of the page size.
  std::size_t blocks = 96;      // The most blocks in memory; more than `threads`.
  std::size_t threads = 8;
  std::size_t ahead = 8;  // Blocks that are fetched ahead for a reader that reads in order.
};

// The threads that fetch for any number of FetchedMemory, and the limit on their common memory.
class FetchPool {
 public:
  static absl::StatusOr<std::shared_ptr<FetchPool>> Create(const FetchLimits& limits);
  // Waits for calls of Fetch that are under way.
  ~FetchPool();
  FetchPool(const FetchPool&) = delete;
  FetchPool& operator=(const FetchPool&) = delete;

 private:
  friend class FetchedMemory;
  using State = FaultRange::State;

  // The state of one FetchedMemory. A fetch that is under way keeps it alive.
  struct Source {
    Fetch fetch;
    std::uint64_t size = 0;
    std::unique_ptr<FaultRange> range;  // Null when the memory is gone.
    absl::Status failure;               // The first one. Nothing is fetched after it.
  };
  using SourcePtr = std::shared_ptr<Source>;
  using BlockId = std::pair<SourcePtr, std::uint32_t>;  // One block.
  struct Held {
    BlockId id;
    bool spared = false;  // It is dropped when its turn comes again, unless it is read before.
  };

  explicit FetchPool(const FetchLimits& limits) : limits_(limits) {}
  absl::StatusOr<SourcePtr> Add(std::uint64_t size, Fetch fetch);
  void Remove(const SourcePtr& source);
  absl::Status FailureOf(const SourcePtr& source) const;

  void ReadRequests();
  void Serve(const FaultRange::Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Want(const SourcePtr& source, std::uint32_t block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Expect(const SourcePtr& source, std::uint32_t block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FetchBlocks();
  void FetchOne(const BlockId& place);
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(const BlockId& place, char* memory, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FetchLimits limits_;
  FileDescriptor requests_, ask_;  // The two ends of the pipe that readers write into.
  std::vector<std::thread> threads_;

  mutable Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::uint32_t, SourcePtr> sources_ ABSL_GUARDED_BY(mutex_);  // By the range's number.
  std::deque<BlockId> queue_ ABSL_GUARDED_BY(mutex_);  // Blocks to fetch, the next one first.
  std::deque<Held> held_ ABSL_GUARDED_BY(mutex_);      // Blocks in memory, the next to go first.
};

// Safe to read from several threads. After a failed fetch the rest reads as zeros. Call Check()
// after reading and before using what was read. System calls must not be given these addresses
// (see FaultRange).
class FetchedMemory {
 public:
  static absl::StatusOr<FetchedMemory> Map(std::shared_ptr<FetchPool> pool, std::uint64_t size,
                                           Fetch fetch);
  FetchedMemory(FetchedMemory&& other) noexcept;
  FetchedMemory& operator=(FetchedMemory&& other) noexcept;
  ~FetchedMemory();

  // The address does not change when the object is moved.
  std::string_view bytes() const { return bytes_; }
  // The first failure of a fetch.
  absl::Status Check() const { return pool_->FailureOf(source_); }

 private:
  FetchedMemory() = default;

  std::shared_ptr<FetchPool> pool_;
  FetchPool::SourcePtr source_;
  std::string_view bytes_;
};

}  // namespace strobe
