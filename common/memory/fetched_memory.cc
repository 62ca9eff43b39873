#include "common/memory/fetched_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "common/base/guard.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {

absl::StatusOr<std::shared_ptr<FetchPool>> FetchPool::Create(const FetchLimits& limits) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  std::shared_ptr<FetchPool> pool(new FetchPool(limits));
  pool->requests_ = FileDescriptor(ends[0]);
  pool->ask_ = FileDescriptor(ends[1]);
  FetchPool& self = *pool;
  self.threads_.emplace_back(
      [&self] { RunThread("fetch requests", [&] { self.ReadRequests(); }); });
  for (std::size_t i = 0; i < limits.threads; ++i)
    self.threads_.emplace_back([&self] { RunThread("fetch", [&] { self.FetchBlocks(); }); });
  return pool;
}

FetchPool::~FetchPool() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }
  ask_ = FileDescriptor();  // Ends ReadRequests.
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<FetchPool::SourcePtr> FetchPool::Add(std::uint64_t size, Fetch fetch) {
  auto source = std::make_shared<Source>();
  source->fetch = std::move(fetch);
  source->size = size;
  ASSIGN_OR_RETURN(source->range, FaultRange::Reserve(size, limits_.block, ask_.get()));
  MutexLock lock(&mutex_);
  if (size > 0) sources_[source->range->number()] = source;
  return source;
}

void FetchPool::Remove(const SourcePtr& source) {
  std::unique_ptr<FaultRange> range;  // Declared before the lock: unmapping takes a while.
  MutexLock lock(&mutex_);
  const auto of_source = [&](const BlockId& place) { return place.first == source; };
  std::erase_if(queue_, of_source);
  std::erase_if(held_, [&](const Held& held) { return of_source(held.id); });
  if (source->size > 0) sources_.erase(source->range->number());
  range = std::move(source->range);
}

absl::Status FetchPool::FailureOf(const SourcePtr& source) const {
  MutexLock lock(&mutex_);
  return source->failure;
}

void FetchPool::ReadRequests() {
  std::array<FaultRange::Request, 64> requests{};
  for (;;) {
    const ssize_t got = read(requests_.get(), requests.data(), sizeof requests);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    // Only whole requests arrive, because a pipe does not split such short writes (PIPE_BUF).
    const std::size_t count = static_cast<std::size_t>(got) / sizeof requests[0];
    MutexLock lock(&mutex_);
    for (std::size_t i = 0; i < count; ++i) Serve(requests[i]);
  }
}

void FetchPool::Serve(const FaultRange::Request& request) {
  const auto found = sources_.find(request.range);
  if (found == sources_.end()) return;  // A repeated request for memory that is gone by now.
  const SourcePtr source = found->second;
  if (request.block >= source->range->blocks()) return;
  Want(source, request.block);
  if (!source->failure.ok()) return;
  // Fetches as many blocks ahead as were read in order before this one, so that few are fetched in
  // vain for a reader that jumps.
  std::uint32_t in_order = 0;
  while (in_order < std::min<std::size_t>(limits_.ahead, request.block) &&
         source->range->state(request.block - in_order - 1) != State::kAbsent)
    ++in_order;
  const std::uint32_t last = std::min(request.block + in_order + 1, source->range->blocks());
  for (std::uint32_t block = request.block + 1; block < last; ++block) Expect(source, block);
}

void FetchPool::Want(const SourcePtr& source, std::uint32_t block) {
  FaultRange& range = *source->range;
  switch (range.state(block)) {
    case State::kReadable:
    case State::kWanted:
      return;
    case State::kHidden:
      range.Show(block);
      return;
    case State::kExpected:
      // If it still waits in the queue, it goes first.
      range.Set(block, State::kWanted);
      if (std::erase(queue_, BlockId(source, block)) > 0) queue_.emplace_front(source, block);
      return;
    case State::kAbsent:
      if (!source->failure.ok()) return range.PlaceZeros(block);
      range.Set(block, State::kWanted);
      queue_.emplace_front(source, block);
      return;
  }
}

void FetchPool::Expect(const SourcePtr& source, std::uint32_t block) {
  if (source->range->state(block) != State::kAbsent) return;
  // Blocks fetched ahead must not evict blocks that were fetched ahead for other readers.
  if (queue_.size() + under_way_ + limits_.threads >= limits_.blocks / 2) return;
  source->range->Set(block, State::kExpected);
  queue_.emplace_back(source, block);
}

void FetchPool::FetchBlocks() {
  for (;;) {
    BlockId next;
    {
      MutexLock lock(&mutex_);
      mutex_.Await(
          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopped_ || !queue_.empty(); });
      if (stopped_) return;
      next = std::move(queue_.front());
      queue_.pop_front();
      ++under_way_;
      MakeRoom();
    }
    FetchOne(next);
  }
}

void FetchPool::FetchOne(const BlockId& place) {
  const Source& source = *place.first;
  const std::uint64_t offset = std::uint64_t{place.second} * limits_.block;
  const std::size_t size = std::min<std::uint64_t>(limits_.block, source.size - offset);
  char* const memory = FaultRange::NewBlock(limits_.block);
  absl::Status status = absl::ResourceExhaustedError("there is no memory for a part of a trace");
  if (memory != nullptr)
    status = RunGuarded("fetch", [&] { return source.fetch(offset, {memory, size}); });
  MutexLock lock(&mutex_);
  --under_way_;
  Finish(place, memory, status);
}

// Evicts blocks, the oldest first (second-chance replacement). Every block is passed over once, so
// that one that was fetched ahead can be read. After that, a block is passed over again only if it
// was read since it was last passed over.
void FetchPool::MakeRoom() {
  while (!held_.empty() && held_.size() + under_way_ > limits_.blocks) {
    Held next = std::move(held_.front());
    held_.pop_front();
    FaultRange& range = *next.id.first->range;
    const bool used = range.state(next.id.second) == State::kReadable;
    if (used) range.Hide(next.id.second);
    if (next.spared && !used) {
      range.Drop(next.id.second);
    } else {
      next.spared = true;
      held_.push_back(std::move(next));
    }
  }
}

void FetchPool::Finish(const BlockId& place, char* memory, const absl::Status& status) {
  const auto& [source, block] = place;
  FaultRange* const range = source->range.get();
  if (range != nullptr && status.ok() &&
      range->Map(block, memory, range->state(block) == State::kWanted)) {
    held_.push_back({.id = place});
    return;
  }
  if (memory != nullptr) FaultRange::Discard(memory, limits_.block);
  if (range == nullptr) return;
  if (source->failure.ok())
    source->failure =
        status.ok() ? absl::ResourceExhaustedError("there is no room for a mapping") : status;
  if (range->state(block) == State::kWanted)
    range->PlaceZeros(block);
  else
    range->Set(block, State::kAbsent);
}

absl::StatusOr<FetchedMemory> FetchedMemory::Map(std::shared_ptr<FetchPool> pool,
                                                 std::uint64_t size, Fetch fetch) {
  FetchedMemory memory;
  ASSIGN_OR_RETURN(memory.source_, pool->Add(size, std::move(fetch)));
  memory.bytes_ = memory.source_->range->bytes();
  memory.pool_ = std::move(pool);
  return memory;
}

FetchedMemory::FetchedMemory(FetchedMemory&& other) noexcept { *this = std::move(other); }

FetchedMemory& FetchedMemory::operator=(FetchedMemory&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(source_, other.source_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

FetchedMemory::~FetchedMemory() {
  if (pool_ != nullptr) pool_->Remove(source_);
}

}  // namespace strobe
