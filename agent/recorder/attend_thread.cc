#include "agent/recorder/attend_thread.h"

#include <atomic>
#include <ctime>

#include "agent/recorder/quiet_thread.h"
#include "agent/wire/cgroup_memory.h"
#include "agent/wire/ticks.h"

namespace strobe::agent {
namespace {

constexpr long kEveryNs = 50'000'000;

std::atomic<std::uint64_t> answered{0};  // The last attend_until for which a thread was started.
std::atomic<AtBeginning> beginning{nullptr};

void TellMemory(wire::FileHeader& header) {
  const wire::MemoryUse use = wire::ReadMemoryUse();
  header.memory_used.store(use.used, std::memory_order_relaxed);
  header.memory_limit.store(use.limit, std::memory_order_relaxed);
  header.memory_read_at.store(wire::MonotonicNs(), std::memory_order_release);
}

void* Run(void* argument) {
  auto& file = *static_cast<wire::RingFile*>(argument);
  wire::FileHeader& header = *file.header();
  const std::uint64_t until = header.attend_until.load(std::memory_order_relaxed);
  const auto asked = [&] { return header.attend_until.load(std::memory_order_relaxed) == until; };
  beginning.load()();
  // At least one reading, however late the thread was started: a sidecar may want no more.
  do {
    if (!asked()) break;
    TellMemory(header);
    const timespec pause{0, kEveryNs};
    nanosleep(&pause, nullptr);
  } while (asked() && wire::MonotonicNs() < until);
  // A live sidecar withdraws its wishes before the time is over. If no sidecar holds the lease, it
  // died.
  if (asked() && file.RenewDescriptor() && !file.Leased()) {
    file.Wish(wire::Wisher::kCapture, 0);
    file.Wish(wire::Wisher::kSteps, 0);
  }
  return nullptr;
}

}  // namespace

bool AttendanceIsAsked(const wire::FileHeader& header) {
  return header.attend_until.load(std::memory_order_relaxed) !=
         answered.load(std::memory_order_relaxed);
}

void Attend(wire::RingFile& file, AtBeginning at_beginning) {
  const std::uint64_t until = file.header()->attend_until.load(std::memory_order_relaxed);
  if (answered.exchange(until) == until || until == 0) return;
  beginning = at_beginning;
  StartQuietThread("strobe-attend", &Run, &file);
}

void ForgetAttendance() { answered = 0; }

}  // namespace strobe::agent
