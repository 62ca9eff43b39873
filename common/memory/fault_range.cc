#include "common/memory/fault_range.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <mutex>
#include <span>

#include "common/base/strings.h"
#include "common/memory/fault_handler.h"

namespace strobe {

// The signal handler reads the slots, so they consist of atomics and never move. `end` is written
// last and cleared first: a slot whose end is 0 belongs to no range.
struct FaultRange::Slot {
  std::atomic<bool> taken{false};
  std::atomic<std::uintptr_t> begin{0}, end{0};
  std::atomic<std::size_t> block{0};
  std::atomic<int> request_pipe{-1};
  std::atomic<std::atomic<std::uint32_t>*> words{nullptr};
};

namespace {

// As many as memory-mapped files, so that every trace may have an index. The kernel permits 65,530
// mappings, of which a range needs one, and a few for its blocks that are present.
constexpr std::uint32_t kMaxRanges = 16384;
constexpr std::size_t kMaxBlocks = 1 << 20;  // Their states take 4 MiB.
constexpr std::uint32_t kStateBits = 3, kStateMask = (1u << kStateBits) - 1;

// No slot from this number on was ever used.
std::atomic<std::uint32_t> used_slots{0};

FaultRange::State StateIn(std::uint32_t word) {
  return static_cast<FaultRange::State>(word & kStateMask);
}

long Futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

// A read may still fault at the moment when its block becomes readable, but not again and again. A
// thread that keeps faulting at the same address therefore writes, which is a defect.
bool FailsForGood(std::uintptr_t address) {
  constexpr unsigned kTries = 1000;
  thread_local std::uintptr_t last = 0;
  thread_local unsigned times = 0;
  times = address == last ? times + 1 : 0;
  last = address;
  return times > kTries;
}

}  // namespace

FaultRange::Slot* FaultRange::Slots() {
  static Slot* const slots = new Slot[kMaxRanges];
  return slots;
}

// Called by the signal handler: only atomics and system calls.
bool FaultRange::Await(Slot& slot, std::uint32_t number, std::uintptr_t address) {
  const Request request = {number,
                           static_cast<std::uint32_t>((address - slot.begin) / slot.block.load())};
  std::atomic<std::uint32_t>& word = slot.words.load()[request.block];
  std::uint32_t now = word.load(std::memory_order_acquire);
  if (StateIn(now) == State::kReadable) return !FailsForGood(address);
  for (; StateIn(now) != State::kReadable; now = word.load(std::memory_order_acquire)) {
    // Asks again after every change: the block may have been placed, and dropped again, before this
    // thread woke.
    if (syscall(SYS_write, slot.request_pipe.load(), &request, sizeof request) < 0) continue;
    Futex(word, FUTEX_WAIT, now);
  }
  return true;
}

bool FaultRange::OnFault(const siginfo_t& info) {
  const auto address = reinterpret_cast<std::uintptr_t>(info.si_addr);
  if (info.si_code == SEGV_ACCERR) {
    const std::uint32_t used = used_slots.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < used; ++i) {
      Slot& slot = Slots()[i];
      const std::uintptr_t end = slot.end.load(std::memory_order_acquire);
      if (address >= end || address < slot.begin.load(std::memory_order_relaxed)) continue;
      return Await(slot, i, address);
    }
  }
  return false;
}

absl::StatusOr<std::unique_ptr<FaultRange>> FaultRange::Reserve(std::size_t size, std::size_t block,
                                                                int request_pipe) {
  static std::once_flag installed;
  std::call_once(installed, [] {
    Slots();  // Allocates the slots before the handler may need them.
    InstallFaultHandler(SIGSEGV, OnFault);
  });
  const std::size_t blocks = (size + block - 1) / block;
  if (blocks > kMaxBlocks)
    return absl::ResourceExhaustedError(StrCat(size, " bytes have too many blocks"));
  std::unique_ptr<FaultRange> range(new FaultRange);
  range->size_ = size;
  range->block_ = block;
  range->blocks_ = static_cast<std::uint32_t>(blocks);
  range->words_ = std::make_unique<std::atomic<std::uint32_t>[]>(blocks);
  if (blocks == 0) return range;
  void* const begin =
      mmap(nullptr, blocks * block, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED)
    return absl::ResourceExhaustedError(StrCat("there is no address space for ", size, " bytes"));
  range->begin_ = static_cast<char*>(begin);
  for (std::uint32_t i = 0; i < kMaxRanges; ++i) {
    Slot& slot = Slots()[i];
    bool taken = false;
    if (!slot.taken.compare_exchange_strong(taken, true)) continue;
    range->number_ = i;
    range->slot_ = &slot;
    slot.begin = reinterpret_cast<std::uintptr_t>(begin);
    slot.block = block;
    slot.request_pipe = request_pipe;
    slot.words = range->words_.get();
    for (std::uint32_t used = used_slots; used <= i;)
      if (used_slots.compare_exchange_weak(used, i + 1)) break;
    slot.end.store(reinterpret_cast<std::uintptr_t>(begin) + blocks * block,
                   std::memory_order_release);
    return range;
  }
  return absl::ResourceExhaustedError("too many traces of object stores are open");
}

FaultRange::~FaultRange() {
  if (slot_ != nullptr) {
    slot_->end = 0;
    slot_->taken.store(false, std::memory_order_release);
  }
  if (begin_ != nullptr) munmap(begin_, blocks_ * block_);
}

FaultRange::State FaultRange::state(std::uint32_t block) const {
  return StateIn(words_[block].load(std::memory_order_relaxed));
}

void FaultRange::Set(std::uint32_t block, State state) {
  const std::uint32_t now = words_[block].load(std::memory_order_relaxed);
  const std::uint32_t next =
      ((now & ~kStateMask) + (1u << kStateBits)) | static_cast<std::uint32_t>(state);
  words_[block].store(next, std::memory_order_release);
  if (state == State::kReadable) Futex(words_[block], FUTEX_WAKE, INT_MAX);
}

char* FaultRange::NewBlock(std::size_t block) {
  void* const memory =
      mmap(nullptr, block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

void FaultRange::Discard(char* memory, std::size_t block) { munmap(memory, block); }

bool FaultRange::Map(std::uint32_t block, char* memory, bool readable) {
  if (mprotect(memory, block_, readable ? PROT_READ : PROT_NONE) != 0 ||
      mremap(memory, block_, block_, MREMAP_MAYMOVE | MREMAP_FIXED, At(block)) == MAP_FAILED)
    return false;
  Set(block, readable ? State::kReadable : State::kHidden);
  return true;
}

void FaultRange::PlaceZeros(std::uint32_t block) {
  (void)mmap(At(block), block_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
             -1, 0);
  Set(block, State::kReadable);
}

void FaultRange::Show(std::uint32_t block) {
  mprotect(At(block), block_, PROT_READ);
  Set(block, State::kReadable);
}

void FaultRange::Hide(std::uint32_t block) {
  Set(block, State::kHidden);
  mprotect(At(block), block_, PROT_NONE);
}

void FaultRange::Drop(std::uint32_t block) {
  (void)mmap(At(block), block_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
             -1, 0);
  Set(block, State::kAbsent);
}

}  // namespace strobe
