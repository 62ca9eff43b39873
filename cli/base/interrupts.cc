#include "cli/base/interrupts.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace strobe::cli {
namespace {

volatile std::sig_atomic_t g_interrupts = 0, g_termination = 1;

void CountInterrupt(int signal) {
  g_interrupts = std::max<int>(g_interrupts + 1, signal == SIGTERM ? g_termination : 0);
  if (g_interrupts > Interrupts::kLeave) _exit(128 + signal);
}

}  // namespace

Interrupts::Interrupts(int termination, bool hangup) {
  g_termination = termination;
  std::signal(SIGINT, CountInterrupt);
  std::signal(SIGTERM, CountInterrupt);
  if (hangup) std::signal(SIGHUP, CountInterrupt);
}

int Interrupts::count() const { return g_interrupts; }

void Pause(Nanos duration, const Interrupts& interrupts, int known) {
  const SystemClock clock;
  const MonoTime end = clock.MonoNow() + duration;
  while (clock.MonoNow() < end && interrupts.count() <= known) usleep(50'000);
}

void PauseOneSecond(const Interrupts& interrupts, int known) {
  Pause(std::chrono::seconds(1), interrupts, known);
}

}  // namespace strobe::cli
