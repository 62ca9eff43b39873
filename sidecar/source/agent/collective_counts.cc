#include "sidecar/source/agent/collective_counts.h"

#include <atomic>
#include <cstddef>
#include <utility>

#include "sidecar/source/agent/recorded_collectives.h"
#include "sidecar/source/agent/ring_files.h"

namespace strobe::source {

std::map<std::string, std::uint64_t> CollectiveCounts::Read() {
  std::map<std::string, std::uint64_t> counts;
  if (directory_.empty()) return counts;
  MutexLock lock(&mutex_);
  std::map<std::string, Calls> now;
  for (const std::string& path : RingFiles(directory_)) {
    const GuardedCollectives opened = OpenCollectives(path);
    if (!opened.file) continue;
    Calls calls{};
    for (std::size_t i = 0; i < calls.size(); ++i)
      calls[i] = opened.file.header()->calls[i].load(std::memory_order_relaxed);
    const Calls& before = last_[path];
    for (std::size_t i = 0; i < calls.size(); ++i)
      total_[i] += calls[i] >= before[i] ? calls[i] - before[i] : calls[i];
    now[path] = calls;
  }
  last_ = std::move(now);
  for (std::size_t i = 0; i < total_.size(); ++i) {
    if (total_[i] > 0)
      counts[std::string(wire::NameOf(static_cast<wire::CollectiveCall>(i)))] = total_[i];
  }
  return counts;
}

}  // namespace strobe::source
