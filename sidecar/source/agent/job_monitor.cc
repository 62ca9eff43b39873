#include "sidecar/source/agent/job_monitor.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "agent/wire/layout.h"
#include "agent/wire/ticks.h"
#include "common/base/file_descriptor.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "sidecar/source/agent/process_files.h"
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

using session::JobSigns;
using std::chrono::milliseconds;

// How often to look for programs that have just started.
constexpr Nanos kFindMonitoredEvery = milliseconds(200);
// The minimal interval between two readings of both clocks, so that the rate is accurate.
constexpr std::uint64_t kMinSpanNs = 10'000'000;
// An older reading is not used.
constexpr std::uint64_t kFreshNs = 1'000'000'000;
constexpr std::uint32_t kStepLevel = 1;
constexpr std::size_t kMaxMonitoredPrograms = 512;
// A longer step is not plausible.
constexpr double kMaxStepNs = 3.6e12;

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

void RingMonitor::Begin(const v1::CapturePlan& plan) {
  const Nanos left = FromUnixNanos(plan.deadline_ns()) - clock_.WallNow();
  memory_until_ = plan.abort_memory_percent() == 0 || left <= Nanos{0}
                      ? 0
                      : wire::MonotonicNs() + static_cast<std::uint64_t>(left.count());
  steps_ = plan.abort_slowdown_percent() > 0;
  FindPrograms();
}

void RingMonitor::FindPrograms() {
  found_ = clock_.MonoNow();
  for (const std::string& path : RingFiles(directory_.path())) {
    if (programs_.contains(path) || programs_.size() >= kMaxMonitoredPrograms) continue;
    OpenedRings opened = OpenRings(path);
    const wire::RingFile& file = opened.rings.file;
    if (opened.error != wire::RingFileError::kNone || !opened.lives ||
        !directory_.Concerns(file,
                             programs_.contains(StrCat(directory_.path(), "/", file.ForkedFrom()))))
      continue;
    wire::FileHeader& header = *file.header();
    Program program{.rings = {},
                    .ticks = header.tick_kind,
                    .opened = wire::MonotonicMoment(header.tick_kind),
                    .name = CutUtf8(file.ProgramName(), wire::kProgramBytes)};
    if (memory_until_ > 0) header.attend_until.store(memory_until_, std::memory_order_relaxed);
    if (steps_) {
      file.Wish(wire::Wisher::kSteps, kStepLevel);
      // A running capture has set its own filter.
      if (header.wishes[static_cast<std::size_t>(wire::Wisher::kCapture)].load() == 0)
        header.filter.store(~0u, std::memory_order_relaxed);
    }
    program.rings = std::move(opened.rings);
    programs_.emplace(path, std::move(program));
  }
}

JobSigns RingMonitor::Look() {
  JobSigns signs;
  if (memory_until_ == 0 && !steps_) return signs;
  step_files_.Look(memory_until_ > 0, steps_, signs);
  if (clock_.MonoNow() - found_ > kFindMonitoredEvery) FindPrograms();
  for (auto& [path, program] : programs_) {
    if (memory_until_ > 0) LookAtMemory(program, signs);
    if (steps_) LookAtSteps(program, signs);
  }
  return signs;
}

void RingMonitor::LookAtMemory(const Program& program, JobSigns& signs) const {
  const wire::FileHeader& header = *program.rings.file.header();
  const std::uint64_t read_at = header.memory_read_at.load(std::memory_order_acquire);
  const std::uint64_t now = wire::MonotonicNs();
  if (read_at == 0 || now > read_at + kFreshNs) {
    // Wakes the device thread, which starts the attendance thread. Without annotations, nothing
    // else would.
    program.rings.file.WakeProgram();
    return;
  }
  TakeCloser({header.memory_used.load(std::memory_order_relaxed),
              header.memory_limit.load(std::memory_order_relaxed)},
             signs);
}

void RingMonitor::LookAtSteps(Program& program, JobSigns& signs) {
  const wire::RingFile& file = program.rings.file;
  const wire::FileHeader& header = *file.header();
  if (header.control.load(std::memory_order_relaxed) == 0) signs.steps_missing = true;
  const wire::TickMoment now = wire::MonotonicMoment(program.ticks);
  if (now.other_ns - program.opened.other_ns < kMinSpanNs || now.ticks == program.opened.ticks)
    return;
  const double ns_per_tick = static_cast<double>(now.other_ns - program.opened.other_ns) /
                             static_cast<double>(now.ticks - program.opened.ticks);
  const auto age = [&](std::uint64_t ticks) {
    return Nanos{static_cast<std::int64_t>(static_cast<double>(now.ticks - ticks) * ns_per_tick)};
  };
  const auto max_ticks = static_cast<std::uint64_t>(kMaxStepNs / ns_per_tick);
  const MonoTime here{Nanos{now.other_ns}};
  const std::uint32_t rings =
      std::min(header.rings.load(std::memory_order_acquire), file.max_rings());
  while (program.readers.size() < rings) {
    const auto index = static_cast<std::uint32_t>(program.readers.size());
    program.readers.emplace_back(file.ring(index), file.data(index), file.ring_words());
  }
  std::uint64_t lost = 0;
  for (wire::RingReader& reader : program.readers) {
    reader.Drain(buffer_, [&](const wire::ScopeRecord& record) {
      if (record.begin > record.end || record.end > now.ticks ||
          now.ticks - record.begin > max_ticks)
        return;
      if (const auto step = StepOf(record.text))
        signs.steps.push_back({StrCat(program.name, " ", step->loop), here - age(record.begin),
                               here - age(record.end)});
    });
    lost += reader.lost();
  }
  if (std::exchange(program.lost, lost) != lost) signs.steps_missing = true;
}

void RingMonitor::End() {
  for (auto& [path, program] : programs_) {
    program.rings.file.header()->attend_until.store(0, std::memory_order_relaxed);
    if (steps_) program.rings.file.Wish(wire::Wisher::kSteps, 0);
  }
  programs_.clear();
  step_files_.End();
}

}  // namespace strobe::source
