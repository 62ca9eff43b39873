// Ends a command's work at a signal, also while it waits for a store.
#pragma once
#include <unistd.h>

#include <thread>

#include "cli/base/common_flags.h"
#include "common/base/cancellation.h"
#include "common/base/ending_signals.h"

namespace strobe::cli {

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
