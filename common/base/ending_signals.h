// Signal handling of the programs' main functions.
#pragma once
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "common/base/clock.h"

namespace strobe {

// Makes a write to a connection that the peer has closed fail with EPIPE instead of ending the
// process. Every main calls it, because some libraries write to sockets without MSG_NOSIGNAL.
inline void IgnoreBrokenPipes() { std::signal(SIGPIPE, SIG_IGN); }

// Waits for SIGTERM or SIGINT. Construct it first in main, before any thread starts: threads
// inherit the blocked signals, so that only Wait receives them.
class EndingSignals {
 public:
  EndingSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }
  void Wait() const {
    int signal = 0;
    sigwait(&signals_, &signal);
  }
  // Waits for at most `timeout`. False if no signal arrived.
  bool WaitFor(Nanos timeout) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
    const timespec limit{seconds.count(), (timeout - seconds).count()};
    return sigtimedwait(&signals_, nullptr, &limit) > 0;
  }

  // Makes Wait return; may be called from any thread. It sends the signal to the process: raise
  // would send it to the calling thread, where it is blocked.
  static void End() { kill(getpid(), SIGTERM); }

 private:
  sigset_t signals_{};
};

}  // namespace strobe
