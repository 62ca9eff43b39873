// SIGTERM and SIGINT as something to wait for. Made first thing in main, before any thread starts,
// so that only Wait sees the signals.
#pragma once
#include <csignal>

namespace strobe {

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

 private:
  sigset_t signals_{};
};

}  // namespace strobe
