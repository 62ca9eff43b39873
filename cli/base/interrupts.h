// The user's wish to stop, as commands that wait see it.
#pragma once
#include "common/base/clock.h"

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

}  // namespace strobe::cli
