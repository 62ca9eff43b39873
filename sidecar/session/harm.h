// When does a capture harm the job so much that it has to end? Pure: signs come in, a verdict goes
// out.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "sidecar/session/ports.h"

namespace strobe::session {

struct HarmLimits {
  // Of the memory limit that the trainer is nearest to; 0 = any.
  std::uint32_t memory_percent = 0;
  // How much longer than before steps may take while recorded; 0 = any.
  std::uint32_t slowdown_percent = 0;
};

struct Harm {
  std::string message{};  // What was seen, and which limit it passed.
  // Collecting what was recorded so far does the job no further harm.
  bool keep = false;
};

class HarmRule {
 public:
  explicit HarmRule(HarmLimits limits) : limits_(limits) {}

  // The recording begins then: steps from there on are compared with those seen so far.
  void Recording(MonoTime since);
  // The recording has ended: steps are not looked at any more.
  void Collecting() { recording_ = false; }
  std::optional<Harm> See(const JobSigns& signs, MonoTime now);
  v1::JobEffect effect() const;

 private:
  std::optional<Harm> SeeMemory(const JobSigns& signs);
  std::optional<Harm> SeeSteps(const JobSigns& signs, MonoTime now);

  const HarmLimits limits_;
  std::uint32_t memory_peak_ = 0;                    // Percent.
  std::map<std::string, std::deque<Nanos>> before_;  // By loop.
  // The loop that took most of the time before, and its usual step; empty when too few were seen.
  std::string loop_;
  Nanos usual_{};
  bool recording_ = false;
  MonoTime since_{}, last_end_{};
  std::deque<Nanos> during_;
};

}  // namespace strobe::session
