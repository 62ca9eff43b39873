#include "sidecar/agent/memory_thread.h"

#include <atomic>
#include <ctime>

#include "sidecar/agent/quiet_thread.h"
#include "sidecar/wire/cgroup_memory.h"
#include "sidecar/wire/ticks.h"

namespace strobe::agent {
namespace {

constexpr long kEveryNs = 50'000'000;

std::atomic<std::uint64_t> answered{0};  // The question that was taken up last.

void* Answer(void* argument) {
  auto& header = *static_cast<wire::FileHeader*>(argument);
  const std::uint64_t until = header.memory_until.load(std::memory_order_relaxed);
  // A sidecar that has died asks no longer than it said.
  while (header.memory_until.load(std::memory_order_relaxed) == until &&
         wire::MonotonicNs() < until) {
    const wire::MemoryUse use = wire::ReadMemoryUse();
    header.memory_used.store(use.used, std::memory_order_relaxed);
    header.memory_limit.store(use.limit, std::memory_order_relaxed);
    header.memory_read_at.store(wire::MonotonicNs(), std::memory_order_release);
    const timespec pause{0, kEveryNs};
    nanosleep(&pause, nullptr);
  }
  return nullptr;
}

}  // namespace

bool MemoryQuestionChanged(const wire::FileHeader& header) {
  return header.memory_until.load(std::memory_order_relaxed) !=
         answered.load(std::memory_order_relaxed);
}

void AnswerMemoryQuestion(wire::FileHeader& header) {
  const std::uint64_t until = header.memory_until.load(std::memory_order_relaxed);
  if (answered.exchange(until) == until || until == 0) return;
  StartQuietThread("strobe-memory", &Answer, &header);
}

void ForgetMemoryThread() { answered = 0; }

}  // namespace strobe::agent
