// What the processes of a worker told of their training steps last. A process on a machine without
// free processors, or one that holds its interpreter, does not answer at once, but its steps go on.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "strobe/v1/worker.pb.h"

namespace strobe {

// Safe for concurrent use.
class StepMemory {
 public:
  // A program may hold its interpreter for as long as kUsual.
  static constexpr Nanos kUsual = std::chrono::milliseconds(200), kFirst = std::chrono::seconds(2);

  // How long to wait for an answer of the process with this socket: kUsual, or, once for each
  // process, `longest`. Nothing is known of its steps yet, and a capture cannot begin at one then.
  Nanos Patience(const std::string& teller, Nanos longest) const;
  // Whether the steps of a process that does not answer are expected to go on at their pace, or are
  // as it told them last.
  enum class Silent { kGoesOn, kRests };
  // Takes the process's answer, none if it did not answer, and returns what is known of its steps.
  std::vector<v1::StepPace> Take(const std::string& teller,
                                 std::optional<std::vector<v1::StepPace>> answer, WallTime now,
                                 Silent silent = Silent::kGoesOn);
  // Forgets all processes but these.
  void KeepOnly(const std::vector<std::string>& tellers);

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::vector<v1::StepPace>> told_ ABSL_GUARDED_BY(mutex_);
};

// The process's place at `now` if its steps went on at their pace. Pure.
v1::StepPace ContinuedAt(v1::StepPace pace, WallTime now);

}  // namespace strobe
