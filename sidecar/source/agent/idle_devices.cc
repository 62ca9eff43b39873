#include "sidecar/source/agent/idle_devices.h"

#include <chrono>

#include "agent/wire/ticks.h"
#include "common/base/clock.h"
#include "sidecar/source/agent/device_answer.h"

namespace strobe::source {
namespace {

using std::chrono::seconds;
using wire::DevicePhase;

constexpr std::uint64_t Ns(Nanos time) { return static_cast<std::uint64_t>(time.count()); }

// A framework announces itself a few seconds after it has started CUDA. A profiler of its own must
// not find CUPTI taken.
constexpr std::uint64_t kSettleNs = Ns(seconds(5));
// Devices of a sidecar that was killed, or is stopped, are disarmed after this time.
constexpr std::uint64_t kWishNs = Ns(seconds(5));
constexpr std::uint64_t kRetryNs = Ns(seconds(60));
// A program is made to look for a profiler server of its own once in this many turns, because that
// takes it up to some milliseconds.
constexpr int kTurnsPerLook = 10;

// Never shortens what a capture has asked for.
void Extend(wire::FileHeader& header, std::uint64_t now_ns) {
  std::uint64_t until = header.device_until.load();
  while (until < now_ns + kWishNs &&
         !header.device_until.compare_exchange_weak(until, now_ns + kWishNs)) {
  }
}

}  // namespace

DeviceAction NextDeviceAction(const DeviceView& view, std::uint64_t now_ns) {
  const bool possible =
      view.uses_cuda && view.refusal == wire::DeviceRefusal::kNone && !view.left_to_framework;
  if (!possible) return view.wish == 0 ? DeviceAction::kNone : DeviceAction::kWithdraw;
  if (view.wish == 0) {
    const bool settled = now_ns >= view.cuda_since_ns + kSettleNs;
    const bool may_work = view.failed_ns == 0 || now_ns >= view.failed_ns + kRetryNs;
    return settled && may_work ? DeviceAction::kArm : DeviceAction::kNone;
  }
  if (view.answered != view.wish || view.phase == DevicePhase::kArmed) return DeviceAction::kExtend;
  // The wish has run out, because this sidecar was stopped for a while.
  if (view.phase == DevicePhase::kFlushed) return DeviceAction::kArm;
  return DeviceAction::kWithdraw;
}

void IdleDevices::Attend(const wire::RingFile& file, bool left_to_framework) {
  Program& program = programs_[file.path()];
  program.seen = true;
  wire::FileHeader& header = *file.header();
  const std::uint64_t now = wire::MonotonicNs();
  const DeviceAnswer answer = AnswerOf(header);
  std::uint32_t wish = header.device_control.load(std::memory_order_acquire);
  if (file.Leased()) {
    // Keeps the devices armed during a capture that does not want them.
    if (wish != 0) Extend(header, now);
    return;
  }
  const DeviceView view{.uses_cuda = header.uses_cuda.load(std::memory_order_relaxed) != 0,
                        .refusal = static_cast<wire::DeviceRefusal>(
                            header.device_refusal.load(std::memory_order_relaxed)),
                        .left_to_framework = left_to_framework,
                        .cuda_since_ns = header.cuda_since_ns.load(std::memory_order_relaxed),
                        .wish = wish,
                        .answered = answer.wish,
                        .phase = answer.phase,
                        .failed_ns = program.failed_ns};
  switch (NextDeviceAction(view, now)) {
    case DeviceAction::kNone:
      return;
    case DeviceAction::kExtend:
      Extend(header, now);
      // The program may have been suspended when the wish was new, and then have taken it for one
      // that was over.
      if (view.answered != wish) file.WakeProgram();
      // A program may start its profiler server at any time.
      if (++program.extended % kTurnsPerLook == 0) TellFrameworkPorts(ports_, header);
      return;
    case DeviceAction::kArm: {
      Extend(header, now);
      TellFrameworkPorts(ports_, header);
      // A capture that begins now writes a number of its own, which stays.
      header.device_mode.store(0, std::memory_order_relaxed);  // The default, without options.
      const std::uint32_t next = NewWish(answer.wish, wish);
      if (header.device_control.compare_exchange_strong(wish, next)) file.WakeProgram();
      return;
    }
    case DeviceAction::kWithdraw:
      if (!left_to_framework) program.failed_ns = now;
      if (header.device_control.compare_exchange_strong(wish, 0)) file.WakeProgram();
      return;
  }
}

void IdleDevices::ForgetOthers() {
  std::erase_if(programs_, [](const auto& entry) { return !entry.second.seen; });
  for (auto& [path, program] : programs_) program.seen = false;
}

void IdleDevices::Release(const wire::RingFile& file) {
  std::uint32_t wish = file.header()->device_control.load();
  if (wish == 0 || file.Leased()) return;
  if (file.header()->device_control.compare_exchange_strong(wish, 0)) file.WakeProgram();
}

}  // namespace strobe::source
