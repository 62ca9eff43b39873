#include "agent/recorder/device_thread.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "agent/cupti/device_tracer.h"
#include "agent/recorder/attend_thread.h"
#include "agent/recorder/disabled.h"
#include "agent/recorder/quiet_thread.h"
#include "agent/wire/ticks.h"

namespace strobe::agent {
namespace {

constexpr long kTickNs = 100'000'000;
constexpr int kMaxGoodbyeMs = 1000;

std::atomic<bool> started{false};
std::atomic<bool> ending{false};  // The program's exit handlers run.
std::atomic<bool> parked{false};  // The thread makes no more calls to CUPTI.
std::atomic<wire::RingFile*> served{nullptr};
std::atomic<void (*)()> at_attendance{nullptr};

// Uses a shared futex, not a private one, because the sidecar wakes it from another process.
void Wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, bool forever) {
  const timespec timeout{0, kTickNs};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, forever ? nullptr : &timeout, nullptr, 0);
}

void* Serve(void* argument) {
  auto& file = *static_cast<wire::RingFile*>(argument);
  wire::FileHeader& header = *file.header();
  DeviceTracer& tracer = TheDeviceTracer();
  std::uint32_t current = 0;  // The number of the last request.
  while (!ending) {
    const std::uint32_t wish = header.device_control.load(std::memory_order_acquire);
    // device_until limits the request, so that a sidecar that died leaves no device armed.
    const bool late = wire::MonotonicNs() > header.device_until.load(std::memory_order_relaxed);
    const bool wanted = wish != 0 && !late;
    if (tracer.armed() && (!wanted || wish != current)) {
      tracer.Disarm();
      continue;
    }
    if (AttendanceIsAsked(header)) Attend(file, at_attendance);
    if (wanted && (wish != current || tracer.waits_for_cuda())) {
      current = wish;
      tracer.Arm(file, wish, &EndDeviceThread);
    } else {
      tracer.Tick();
    }
    if (!ending) Wait(header.device_control, wish, !wanted);
  }
  // If the program ends during a capture, most records are still in CUPTI's buffers.
  tracer.Disarm();
  parked = true;
  return nullptr;
}

}  // namespace

void StartDeviceThread(wire::RingFile& file, void (*at_beginning_of_attendance)()) {
  wire::FileHeader& header = *file.header();
  // Read on the program's thread: another one could change the environment meanwhile.
  const char* variable = std::getenv("STROBE_DEVICE");
  const std::string_view wish = variable == nullptr ? "" : variable;
  if (wish == "off" || IsDisabled("devices")) {
    header.device_refusal = static_cast<std::uint32_t>(wire::DeviceRefusal::kSwitchedOff);
    return;
  }
  if (ending || started.exchange(true)) return;
  if (wish == "force") TheDeviceTracer().Behave(Manners::kForced);
  if (wish == "alone") TheDeviceTracer().Behave(Manners::kAlone);
  std::atexit(&EndDeviceThread);
  served = &file;
  at_attendance = at_beginning_of_attendance;
  if (!StartQuietThread("strobe-device", &Serve, &file)) {
    header.device_refusal = static_cast<std::uint32_t>(wire::DeviceRefusal::kNoThread);
    parked = true;
  }
}

void EndDeviceThread() {
  ending = true;
  wire::RingFile* file = served.load();
  if (file == nullptr) return;
  for (int i = 0; i < kMaxGoodbyeMs && !parked; ++i) {
    // Wakes repeatedly, because the thread may have been about to wait.
    syscall(SYS_futex, &file->header()->device_control, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    usleep(1000);
  }
  TheDeviceTracer().LetGo();
}

void LeaveDevicesToKineto() {
  wire::RingFile* file = served.load();
  if (!TheDeviceTracer().LeaveToKineto() || file == nullptr) return;
  wire::FileHeader& header = *file->header();
  const auto is_free = [&header] {
    const std::uint32_t wish = header.device_control.load(std::memory_order_acquire);
    const std::uint64_t state = header.device_state.load(std::memory_order_acquire);
    // A request that has not been answered may be about to take CUPTI.
    return wish == 0
               ? static_cast<std::uint32_t>(state) !=
                     static_cast<std::uint32_t>(wire::DevicePhase::kArmed)
               : state >> 32 == wish && state != wire::DeviceState(wish, wire::DevicePhase::kArmed);
  };
  for (int i = 0; i < kMaxGoodbyeMs && !parked && !is_free(); ++i) {
    syscall(SYS_futex, &header.device_control, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    usleep(1000);
  }
}

void ForgetDeviceThread() {
  started = ending = parked = false;
  served = nullptr;
  TheDeviceTracer().AfterFork();
}

}  // namespace strobe::agent
