// The cheapest clock that is consistent across all threads of a machine. C++ standard library only.
#pragma once
#include <cstdint>
#include <cstring>
#include <ctime>

#include "agent/wire/layout.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <fcntl.h>
#include <unistd.h>
#include <x86intrin.h>
#endif

namespace strobe::wire {

inline std::uint64_t MonotonicNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

inline std::uint64_t Cycles() {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return MonotonicNs();
#endif
}

#if defined(__x86_64__)
// False if the kernel keeps time by something else than the processor's counter, because it has
// found the counter to be unreliable, or because a hypervisor corrects it. True if that cannot be
// read.
inline bool KernelUsesCycles(
    const char* path = "/sys/devices/system/clocksource/clocksource0/current_clocksource") {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;
  char name[8] = {};
  const ssize_t size = read(file, name, sizeof name - 1);
  close(file);
  return size <= 0 || std::strcmp(name, "tsc\n") == 0 || std::strcmp(name, "tsc") == 0;
}
#endif

// Returns kCycles if the processor's counter has a constant rate on all cores and in all sleep
// states. It stays what it was when the program asked first.
inline TickKind BestTicks() {
#if defined(__x86_64__)
  static const TickKind best = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kInvariant = 1u << 8;
    const bool invariant = __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & kInvariant) != 0;
    return invariant && KernelUsesCycles() ? TickKind::kCycles : TickKind::kMonotonicNs;
  }();
  return best;
#elif defined(__aarch64__)
  return TickKind::kCycles;
#else
  return TickKind::kMonotonicNs;
#endif
}

inline std::uint64_t Ticks(TickKind kind) {
  return kind == TickKind::kCycles ? Cycles() : MonotonicNs();
}

// Ticks and another clock, read at the same moment.
struct TickMoment {
  std::uint64_t ticks = 0, other_ns = 0;
};

// Reads the ticks and, through `read(std::uint64_t&)`, the other clock. Returns false if `read`
// failed.
template <typename Read>
bool ReadTogether(TickKind kind, const Read& read, TickMoment& moment) {
  // Takes the reading with the shortest interval, so that an interrupt between two reads does not
  // matter.
  std::uint64_t width = ~0ull;
  for (int i = 0; i < 8; ++i) {
    std::uint64_t other_ns = 0;
    const std::uint64_t before = Ticks(kind);
    if (!read(other_ns)) return false;
    const std::uint64_t after = Ticks(kind);
    if (after - before >= width) continue;
    width = after - before;
    moment = {before + width / 2, other_ns};
  }
  return true;
}

// Ticks and CLOCK_MONOTONIC, read at the same moment.
inline TickMoment MonotonicMoment(TickKind kind) {
  TickMoment moment;
  ReadTogether(
      kind, [](std::uint64_t& ns) { return ns = MonotonicNs(), true; }, moment);
  return moment;
}

}  // namespace strobe::wire
