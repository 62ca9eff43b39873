#include "sidecar/agent/device_thread.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "sidecar/agent/device_tracer.h"
#include "sidecar/agent/memory_thread.h"
#include "sidecar/agent/quiet_thread.h"
#include "sidecar/wire/ticks.h"

namespace strobe::agent {
namespace {

constexpr long kTickNs = 100'000'000;
constexpr int kLongestGoodbyeMs = 1000;

std::atomic<bool> started{false};
std::atomic<bool> ending{false};  // The program is at its end.
std::atomic<bool> quiet{false};   // And the device is off.
std::atomic<wire::RingFile*> served{nullptr};

// Shared, not private: the sidecar wakes it from another process.
void Wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, bool forever) {
  const timespec timeout{0, kTickNs};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, forever ? nullptr : &timeout, nullptr, 0);
}

// Most records of a program that ends in mid-capture are still in CUPTI's buffers.
void AtExit() {
  wire::RingFile* file = served.load();
  if (file == nullptr || !TheDeviceTracer().armed()) return;
  ending = true;
  syscall(SYS_futex, &file->header()->device_control, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  for (int i = 0; i < kLongestGoodbyeMs && !quiet; ++i) usleep(1000);
}

void* Serve(void* argument) {
  auto& file = *static_cast<wire::RingFile*>(argument);
  wire::FileHeader& header = *file.header();
  DeviceTracer& tracer = TheDeviceTracer();
  std::uint32_t current = 0;  // The wish that was armed for last.
  for (;;) {
    const std::uint32_t wish = header.device_control.load(std::memory_order_acquire);
    // A sidecar that has died must not leave the device armed.
    const bool late = wire::MonotonicNs() > header.device_until.load(std::memory_order_relaxed);
    const bool wanted = wish != 0 && !late && !ending;
    if (tracer.armed() && (!wanted || wish != current)) {
      tracer.Disarm();
      continue;
    }
    AnswerMemoryQuestion(header);
    quiet = ending.load();
    if (wanted && (wish != current || tracer.waits_for_cuda())) {
      if (current == 0) std::atexit(&AtExit);
      current = wish;
      tracer.Arm(file, wish);
    } else {
      tracer.Tick();
    }
    Wait(header.device_control, wish, !wanted);
  }
  return nullptr;
}

}  // namespace

void StartDeviceThread(wire::RingFile& file) {
  const char* wish = std::getenv("STROBE_DEVICE");
  if (wish != nullptr && std::string_view(wish) == "off") return;
  if (started.exchange(true)) return;
  served = &file;
  StartQuietThread("strobe-device", &Serve, &file);
}

void ForgetDeviceThread() {
  started = false;
  served = nullptr;
  TheDeviceTracer().AfterFork();
}

}  // namespace strobe::agent
