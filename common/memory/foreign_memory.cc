#include "common/memory/foreign_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>

#include "common/memory/fault_handler.h"

namespace strobe {

// The signal handler reads the slots, so they consist of atomics and never move. `end` is written
// last and cleared first: a slot whose end is 0 guards nothing.
struct ForeignMemory::Slot {
  std::atomic<bool> taken{false};
  std::atomic<std::uintptr_t> begin{0}, end{0};
  std::atomic<bool> writable{false}, damaged{false};
};

namespace {

constexpr std::size_t kMaxObjects = 16384;

}  // namespace

ForeignMemory::Slot* ForeignMemory::Slots() {
  static Slot* const slots = new Slot[kMaxObjects];
  return slots;
}

bool ForeignMemory::OnFault(const siginfo_t& info) {
  const auto address = reinterpret_cast<std::uintptr_t>(info.si_addr);
  // BUS_ADRERR means that the file has no such page. Other codes report hardware memory errors.
  if (info.si_code == BUS_ADRERR) {
    for (Slot& slot : std::span(Slots(), kMaxObjects)) {
      const std::uintptr_t end = slot.end.load(std::memory_order_acquire);
      if (address >= end || address < slot.begin.load(std::memory_order_relaxed)) continue;
      static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
      void* const place = reinterpret_cast<void*>(address / page * page);
      const int access = slot.writable ? PROT_READ | PROT_WRITE : PROT_READ;
      if (mmap(place, page, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != place) break;
      slot.damaged.store(true, std::memory_order_release);
      return true;
    }
  }
  return false;
}

absl::StatusOr<ForeignMemory> ForeignMemory::Guard(void* data, std::size_t size, bool writable) {
  static std::once_flag installed;
  std::call_once(installed, [] {
    Slots();  // Allocates the slots before the handler may need them.
    InstallFaultHandler(SIGBUS, OnFault);
  });
  for (Slot& slot : std::span(Slots(), kMaxObjects)) {
    bool taken = false;
    if (!slot.taken.compare_exchange_strong(taken, true)) continue;
    slot.damaged = false;
    slot.writable = writable;
    slot.begin = reinterpret_cast<std::uintptr_t>(data);
    slot.end.store(reinterpret_cast<std::uintptr_t>(data) + size, std::memory_order_release);
    ForeignMemory memory;
    memory.slot_ = &slot;
    return memory;
  }
  return absl::ResourceExhaustedError("too many memory-mapped files are open");
}

ForeignMemory& ForeignMemory::operator=(ForeignMemory&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

ForeignMemory::~ForeignMemory() {
  if (slot_ == nullptr) return;
  slot_->end = 0;
  slot_->taken.store(false, std::memory_order_release);
}

bool ForeignMemory::damaged() const {
  return slot_ != nullptr && slot_->damaged.load(std::memory_order_acquire);
}

}  // namespace strobe
