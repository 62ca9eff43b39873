#include "sidecar/source/agent/reported_memory.h"

#include <chrono>
#include <string>

#include "agent/wire/cgroup_memory.h"
#include "agent/wire/ticks.h"
#include "sidecar/source/agent/ring_files.h"

namespace strobe::source {
namespace {

constexpr Nanos kAskForMemoryEvery = std::chrono::seconds(5);
// How long a program is asked to run the thread that reads its memory use. One reading is enough,
// and the thread makes it when it starts.
constexpr std::uint64_t kAttendNs = 40'000'000;
constexpr std::uint64_t kFreshMemoryNs = 10'000'000'000;

void AskForMemory(const wire::RingFile& file, std::uint64_t now) {
  wire::FileHeader& header = *file.header();
  const auto wish = [&](wire::Wisher wisher) {
    return header.wishes[static_cast<std::size_t>(wisher)].load(std::memory_order_relaxed);
  };
  std::uint64_t asked = header.attend_until.load(std::memory_order_relaxed);
  // Does not ask while a capture or the job guard does: they ask for longer, and at its end the
  // thread would withdraw their wishes if no sidecar holds the lease.
  if (asked > now || wish(wire::Wisher::kCapture) != 0 || wish(wire::Wisher::kSteps) != 0 ||
      !header.attend_until.compare_exchange_strong(asked, now + kAttendNs))
    return;
  file.WakeProgram();
}

}  // namespace

std::optional<session::SeenMemory> ReportedMemory::Look() {
  const MonoTime mono = clock_.MonoNow();
  const bool ask = !asked_at_ || mono - *asked_at_ >= kAskForMemoryEvery;
  if (ask) asked_at_ = mono;
  const std::uint64_t now = wire::MonotonicNs();
  std::optional<session::SeenMemory> closest;
  for (const std::string& path : RingFiles(directory_.path())) {
    const OpenedRings opened = OpenRings(path);
    const wire::RingFile& file = opened.rings.file;
    if (opened.error != wire::RingFileError::kNone || !opened.lives ||
        !directory_.Concerns(file, /*forked_from_ours=*/false))
      continue;
    const wire::FileHeader& header = *file.header();
    if (ask) AskForMemory(file, now);
    const std::uint64_t read_at = header.memory_read_at.load(std::memory_order_acquire);
    if (read_at == 0 || now > read_at + kFreshMemoryNs) continue;
    const wire::MemoryUse use{header.memory_used.load(std::memory_order_relaxed),
                              header.memory_limit.load(std::memory_order_relaxed)};
    if (use.limit > 0 &&
        (!closest || use.share() > wire::MemoryUse{closest->used, closest->limit}.share()))
      closest = session::SeenMemory{use.used, use.limit};
  }
  return closest;
}

}  // namespace strobe::source
