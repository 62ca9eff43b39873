// What mains do about signals. EndingSignals: SIGTERM and SIGINT as something to wait for; made
// first thing in main, before any thread starts, so that only Wait sees the signals.
#pragma once
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "common/base/clock.h"

namespace strobe {

// For every main: a peer that hangs up is an error of that one write, not the end of the process.
// (Libraries here write to sockets without MSG_NOSIGNAL.)
inline void IgnoreBrokenPipes() { std::signal(SIGPIPE, SIG_IGN); }

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
  // False when none came in time.
  bool WaitFor(Nanos timeout) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
    const timespec limit{seconds.count(), (timeout - seconds).count()};
    return sigtimedwait(&signals_, nullptr, &limit) > 0;
  }

  // Makes Wait return, from any thread. (raise would leave the signal with the thread that calls
  // it, which has it blocked, for ever.)
  static void End() { kill(getpid(), SIGTERM); }

 private:
  sigset_t signals_{};
};

}  // namespace strobe
