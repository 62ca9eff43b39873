// Notices that the engine of an inference server is not as usual: no iteration begins although
// requests run, and iterations that take longer than those of like batches. Pure.
//
// An engine without requests makes no iterations, and prefill and decode differ a hundredfold, so
// that the rules for training steps do not fit.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "sidecar/capture/engine_reading.h"
#include "sidecar/capture/job_signs.h"
#include "strobe/v1/signs.pb.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// Slow iterations count together if they ended within this time.
inline constexpr Nanos kSlowTogether = std::chrono::seconds(10);

// Removes the iterations of these engines from the steps that processes told: an engine without
// requests makes none, and is no job that stands still.
void RemoveIterations(std::span<const EngineReading> engines, std::vector<v1::StepPace>& told);
// Removes those of engines that do not stand still: that have no requests, or began an iteration
// not long ago.
void RemoveMovingEngines(std::span<const EngineReading> engines, MonoTime now,
                         std::vector<v1::StepPace>& told);

// How many requests run or wait in the engines; none if there is no engine.
std::optional<std::uint64_t> RunningRequests(std::span<const EngineReading> engines, MonoTime now);

class EngineSignRules {
 public:
  // Replaces the rules, of which SIGN_NO_STEP, SIGN_STALLED and SIGN_ITERATION_SLOWER are meant.
  // What is known of engines, and of rules that stay, is kept.
  void Set(std::span<const v1::SignRule> rules);
  bool empty() const { return rules_.empty(); }

  // `told` is what Source::Engines returned. Returns the signs that appear now. A sign that lasts
  // is returned once, and again only after it was gone.
  std::vector<FoundSign> Look(std::span<const EngineReading> told, MonoTime now);

 private:
  // Batches of like size: how often requests, and tokens beyond one for each, can be halved.
  using BatchSize = std::pair<int, int>;
  struct Watch {
    std::deque<MonoTime> slow{};  // When the slow iterations of the last seconds ended.
    // The sign of slow iterations, or of a stall, was returned, and has not gone since.
    bool slowed = false, stalled = false;
  };
  struct Engine {
    MonoTime judged{};  // When the last iteration began that is known to have ended.
    std::map<BatchSize, std::deque<std::int64_t>> usual{};  // Times in ns, the oldest first.
    std::map<std::string, Watch> watches{};                 // By the rule's id.
    bool reported = false;                                  // It was told at the last look.
  };

  static BatchSize SizeOf(const EngineIteration& iteration);
  void JudgeIterations(const EngineReading& told, MonoTime now, Engine& engine,
                       std::vector<FoundSign>& found) const;
  void JudgeIteration(const EngineReading& told, const EngineIteration& iteration,
                      std::int64_t usual_ns, Engine& engine, std::vector<FoundSign>& found) const;
  void JudgeStall(const EngineReading& told, MonoTime now, Engine& engine,
                  std::vector<FoundSign>& found) const;

  std::vector<v1::SignRule> rules_;
  std::map<std::string, Engine> engines_;  // By process.
};

}  // namespace strobe::session
