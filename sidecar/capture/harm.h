// Decides when a capture harms the training job and must end. Pure.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "sidecar/capture/ports.h"

namespace strobe::session {

struct HarmLimits {
  // The highest allowed memory use, in percent of the limit that the trainer is closest to; 0 is no
  // limit.
  std::uint32_t memory_percent = 0;
  // The highest allowed increase of the step time while recording, in percent; 0 is no limit.
  std::uint32_t slowdown_percent = 0;
};

struct Harm {
  std::string message{};  // What was observed, and the limit that it exceeds.
  // True if the trace recorded so far can be collected without further harm.
  bool keep = false;
};

class HarmRule {
 public:
  explicit HarmRule(HarmLimits limits) : limits_(limits) {}

  // Recording begins at `since`. Later steps are compared with the steps seen before.
  void Recording(MonoTime since);
  // Recording has ended. Steps are not compared any more.
  void Collecting() { recording_ = false; }
  // Evaluates the latest signs. Returns the harm, if there is any.
  std::optional<Harm> Judge(const JobSigns& signs, MonoTime now);
  v1::JobEffect effect() const;

 private:
  std::optional<Harm> JudgeMemory(const JobSigns& signs);
  std::optional<Harm> JudgeSteps(const JobSigns& signs, MonoTime now);

  const HarmLimits limits_;
  std::uint32_t memory_peak_ = 0;                    // Percent.
  std::map<std::string, std::deque<Nanos>> before_;  // By loop.
  // The loop that took most of the time before recording, and its median step. Empty if too few
  // steps were seen.
  std::string loop_;
  Nanos usual_{};
  bool recording_ = false;
  MonoTime since_{}, last_end_{};
  std::deque<Nanos> during_;
};

}  // namespace strobe::session
