// Tells when all processes of a worker are lost and nobody is left to be recorded, so that its
// capture need not wait for the end of a window of minutes.
#pragma once
#include <atomic>
#include <cstddef>
#include <vector>

#include "common/base/clock.h"
#include "sidecar/capture/ports.h"

namespace strobe::source {

class LostWorker {
 public:
  // `waiting`: the source that records until the end, because programs may begin during the window.
  // `others`: how many other sources record.
  LostWorker(session::Source& waiting, std::size_t others)
      : waiting_(waiting), other_sources_(others) {}

  // One of the others has ended with this. Called by any thread.
  void OnRecorded(const std::vector<session::Recording>& recordings);
  // True after two seconds without anybody: a launcher such as torchrun may start the processes
  // again. `since` is the time since the last call. Takes as long as probing the source.
  bool IsLost(Nanos since);

 private:
  bool NobodyIsThere();

  session::Source& waiting_;
  std::atomic<std::size_t> other_sources_;
  std::atomic<bool> lost_{false};  // A process was lost.
  std::atomic<bool> kept_{false};  // A process was not.
  Nanos nobody_for_{0};
};

}  // namespace strobe::source
