// How commands end at signals.
#pragma once
#include <unistd.h>

#include <thread>

#include "cli/base/common_flags.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "common/base/ending_signals.h"

namespace strobe::cli {

// Counts SIGINT and SIGTERM, and SIGHUP if so wished, from its construction on. The signals that
// come while a command waits do not end the process, until there are more than `kLeave`.
class Interrupts {
 public:
  static constexpr int kLeave = 2;
  // After a SIGTERM the count is at least `termination`. A SIGHUP comes when the terminal is
  // closed.
  explicit Interrupts(int termination = 1, bool hangup = false);
  int count() const;
};

// Waits this long, or until more than `known` interrupts have come.
void Pause(Nanos duration, const Interrupts& interrupts, int known);
void PauseOneSecond(const Interrupts& interrupts, int known);

// Cancels at SIGTERM and SIGINT. A second signal ends the process. Construct it before other
// threads start, because threads inherit which signals are blocked.
class StopAtSignal {
 public:
  StopAtSignal()
      : thread_([this](const std::stop_token& token) {
          while (!token.stop_requested()) {
            if (!signals_.WaitFor(std::chrono::milliseconds(100))) continue;
            if (stop_.cancelled()) _exit(kExitFailed);
            stop_.Cancel();
          }
        }) {}
  const Cancellation& stop() const { return stop_; }

 private:
  const EndingSignals signals_;
  Cancellation stop_;
  std::jthread thread_;  // Last, because it uses the others.
};

}  // namespace strobe::cli
