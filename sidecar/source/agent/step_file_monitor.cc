#include "sidecar/source/agent/step_file_monitor.h"

#include <fcntl.h>

#include <chrono>

#include "agent/wire/layout.h"
#include "agent/wire/ticks.h"
#include "common/base/file_descriptor.h"
#include "common/base/strings.h"
#include "sidecar/source/agent/step_file.h"
#include "sidecar/source/base/reported_steps.h"

namespace strobe::source {
namespace {

// How often to look for processes that have announced themselves meanwhile.
constexpr Nanos kFindAnnouncedEvery = std::chrono::seconds(1);
// An older reading is not used.
constexpr std::uint64_t kFreshReadingNs = 1'000'000'000;

void LookAtMemory(const wire::StepFile& file, session::JobSigns& signs) {
  const std::uint64_t read_at = file.memory_read_at.load(std::memory_order_relaxed);
  if (read_at == 0 || wire::MonotonicNs() > read_at + kFreshReadingNs) return;
  TakeCloser({file.memory_used.load(std::memory_order_relaxed),
              file.memory_limit.load(std::memory_order_relaxed)},
             signs);
}

}  // namespace

void TakeCloser(const wire::MemoryUse& use, session::JobSigns& signs) {
  if (use.share() <= wire::MemoryUse{signs.memory_used, signs.memory_limit}.share()) return;
  signs.memory_used = use.used;
  signs.memory_limit = use.limit;
}

void StepFileMonitor::Look(bool memory, bool steps, session::JobSigns& signs) {
  // A guest serves one program, which the agent watches.
  if (!directory_.is_owner()) return;
  const MonoTime now = clock_.MonoNow();
  if (!found_ || now - *found_ >= kFindAnnouncedEvery) {
    found_ = now;
    processes_ = ReadAnnouncements(directory_.path());
    std::erase_if(processes_, [](const Announcement& process) {
      return !process.trains || process.steps.empty();
    });
  }
  if (processes_.empty()) return;
  const FileDescriptor directory(
      open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  wire::StepFile file{};
  for (const Announcement& process : processes_) {
    if (!ReadStepFile(directory, process, file)) continue;
    if (memory) LookAtMemory(file, signs);
    if (!steps) continue;
    for (std::size_t i = 0; i < file.loops.size(); ++i)
      AddEndedSteps(file.loops[i], process.label(), told_until_ns_[StrCat(process.steps, "/", i)],
                    signs);
  }
}

void StepFileMonitor::End() {
  processes_.clear();
  told_until_ns_.clear();
  found_.reset();
}

}  // namespace strobe::source
