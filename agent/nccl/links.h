// Which record belongs to the handle of an event. C++ standard library only; lock-free.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace strobe::nccl {

// Handles that another plugin returned. A newer handle may replace an older one in the table; the
// older is then not found.
class Links {
 public:
  struct Found {
    std::uint64_t number = 0;
    bool marked = false;
  };

  void Add(const void* handle, std::uint64_t number, bool marked) {
    const std::uint64_t hash = HashOf(handle);
    table_[hash % kEntries].store(
        (hash & kTagMask) | (number << 1 & kNumberMask) | (marked ? 1 : 0),
        std::memory_order_release);
  }
  // `made`: how many records there are. A number is found among the newest 2^31.
  std::optional<Found> Find(const void* handle, std::uint64_t made) const {
    const std::uint64_t hash = HashOf(handle);
    const std::uint64_t entry = table_[hash % kEntries].load(std::memory_order_acquire);
    if (entry == 0 || (entry & kTagMask) != (hash & kTagMask)) return std::nullopt;
    constexpr std::uint64_t kLow = kNumberMask >> 1;
    const std::uint64_t low = (entry & kNumberMask) >> 1;
    const std::uint64_t back = (made - 1 - low) & kLow;
    if (made == 0 || back >= made) return std::nullopt;
    return Found{.number = made - 1 - back, .marked = (entry & 1) != 0};
  }

 private:
  static constexpr std::size_t kEntries = 4096;
  static constexpr std::uint64_t kTagMask = ~0ull << 32, kNumberMask = 0xffff'fffeull;

  // Never has a tag of 0, so that no entry of a handle is 0.
  static std::uint64_t HashOf(const void* handle) {
    std::uint64_t hash = reinterpret_cast<std::uintptr_t>(handle) * 0x9e37'79b9'7f4a'7c15ull;
    hash ^= hash >> 29;
    return hash | 1ull << 63;
  }

  std::array<std::atomic<std::uint64_t>, kEntries> table_{};
};

// Handles of our own: addresses within a range that nothing else uses, so that no handle of another
// plugin can be equal to one.
class OwnHandles {
 public:
  void* Of(std::uint64_t number) { return &range_[number % kHandles]; }
  bool Has(const void* handle) const {
    const auto at = reinterpret_cast<std::uintptr_t>(handle);
    const auto begin = reinterpret_cast<std::uintptr_t>(range_);
    return at >= begin && at < begin + kHandles;
  }
  // The newest number with this handle; nullopt if there is none.
  std::optional<std::uint64_t> NumberOf(const void* handle, std::uint64_t made) const {
    const auto low = static_cast<std::uint64_t>(static_cast<const char*>(handle) - range_);
    const std::uint64_t back = (made - 1 - low) % kHandles;
    if (made == 0 || back >= made) return std::nullopt;
    return made - 1 - back;
  }

 private:
  // More than there are records; the pages are never touched.
  static constexpr std::size_t kHandles = 1u << 16;
  char range_[kHandles] = {};
};

}  // namespace strobe::nccl
