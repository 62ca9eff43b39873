#include "sidecar/capture/engine_signs.h"

#include <algorithm>
#include <bit>

#include "common/base/quantile.h"
#include "sidecar/capture/stand_still.h"

namespace strobe::session {
namespace {

constexpr std::size_t kMaxWatchedEngines = 128;
// The usual time of a batch size is the median of the last kUsualWindow iterations, and is known
// after kUsualKnown.
constexpr std::size_t kUsualWindow = 64, kUsualKnown = 16;

bool IsForEngines(const v1::SignRule& rule) {
  return rule.kind() == v1::SIGN_NO_STEP || rule.kind() == v1::SIGN_STALLED ||
         rule.kind() == v1::SIGN_ITERATION_SLOWER;
}

std::int64_t MedianTime(const std::deque<std::int64_t>& times) {
  std::vector<std::int64_t> copy(times.begin(), times.end());
  return QuantileOf(copy, 0.5);
}

// Since when requests have been there without a new iteration. None if there are none, or an
// iteration may still begin at any moment.
std::optional<MonoTime> StalledSince(const EngineReading& told) {
  if (!told.iterations.empty() && !told.iterations.back().end) return told.iterations.back().begin;
  if (!told.busy_since || told.running + told.waiting == 0) return std::nullopt;
  return std::max(*told.busy_since, told.worked.value_or(*told.busy_since));
}

// The median time of all iterations that are known to have ended; 0 if there are none.
std::int64_t UsualOf(const EngineReading& told) {
  std::vector<std::int64_t> times;
  for (const EngineIteration& iteration : told.iterations) {
    if (iteration.end) times.push_back((*iteration.end - iteration.begin).count());
  }
  return times.empty() ? 0 : QuantileOf(times, 0.5);
}

bool StandsStill(const EngineReading& told, MonoTime now, const StandStillLimits& limits) {
  const std::optional<MonoTime> since = StalledSince(told);
  return since && now - *since > PatienceOf(limits, UsualOf(told));
}

FoundSign SignOf(const v1::SignRule& rule, const EngineReading& told, MonoTime began) {
  FoundSign found;
  found.began = began;
  found.sign.set_rule(rule.id());
  found.sign.set_loop(std::string(kEngineLoop));
  found.sign.set_process(told.process);
  found.sign.set_running(told.running);
  found.sign.set_waiting(told.waiting);
  return found;
}

}  // namespace

void RemoveIterations(std::span<const EngineReading> engines, std::vector<v1::StepPace>& told) {
  std::erase_if(told, [&](const v1::StepPace& pace) {
    return pace.loop() == kEngineLoop &&
           std::any_of(engines.begin(), engines.end(), [&](const EngineReading& engine) {
             return engine.process == pace.process();
           });
  });
}

void RemoveMovingEngines(std::span<const EngineReading> engines, MonoTime now,
                         std::vector<v1::StepPace>& told) {
  std::vector<EngineReading> moving(engines.begin(), engines.end());
  std::erase_if(moving, [&](const EngineReading& engine) { return StandsStill(engine, now, {}); });
  RemoveIterations(moving, told);
}

std::optional<std::uint64_t> RunningRequests(std::span<const EngineReading> engines, MonoTime now) {
  // Where the scheduler is in no process that tells, iterations of the last second tell the same.
  constexpr Nanos kRecent = std::chrono::seconds(1);
  if (engines.empty()) return std::nullopt;
  std::uint64_t queued = 0, in_batches = 0;
  for (const EngineReading& engine : engines) {
    if (engine.busy_since) queued += engine.running + engine.waiting;
    if (engine.iterations.empty()) continue;
    const EngineIteration& last = engine.iterations.back();
    if (now - last.end.value_or(now) < kRecent) in_batches = std::max(in_batches, last.requests);
  }
  return std::max(queued, in_batches);
}

void EngineSignRules::Set(std::span<const v1::SignRule> rules) {
  rules_.clear();
  for (const v1::SignRule& rule : rules) {
    if (IsForEngines(rule) && rules_.size() < kMaxSignRules) rules_.push_back(rule);
  }
  for (auto& [process, engine] : engines_) {
    std::erase_if(engine.watches, [&](const auto& watch) {
      return std::none_of(rules_.begin(), rules_.end(),
                          [&](const v1::SignRule& rule) { return rule.id() == watch.first; });
    });
  }
  if (rules_.empty()) engines_.clear();
}

EngineSignRules::BatchSize EngineSignRules::SizeOf(const EngineIteration& iteration) {
  const std::uint64_t beyond = iteration.tokens - std::min(iteration.tokens, iteration.requests);
  return {static_cast<int>(std::bit_width(iteration.requests)),
          static_cast<int>(std::bit_width(beyond))};
}

std::vector<FoundSign> EngineSignRules::Look(std::span<const EngineReading> told, MonoTime now) {
  std::vector<FoundSign> found;
  for (auto& [process, engine] : engines_) engine.reported = false;
  for (const EngineReading& reading : told) {
    if (!engines_.contains(reading.process) && engines_.size() >= kMaxWatchedEngines) continue;
    Engine& engine = engines_[reading.process];
    engine.reported = true;
    JudgeIterations(reading, now, engine, found);
    JudgeStall(reading, now, engine, found);
  }
  std::erase_if(engines_, [](const auto& entry) { return !entry.second.reported; });
  if (found.size() > kMaxSigns) found.resize(kMaxSigns);
  return found;
}

void EngineSignRules::JudgeIterations(const EngineReading& told, MonoTime now, Engine& engine,
                                      std::vector<FoundSign>& found) const {
  for (auto& [rule, watch] : engine.watches) {
    while (!watch.slow.empty() && now - watch.slow.front() > kSlowTogether) watch.slow.pop_front();
    if (watch.slow.empty()) watch.slowed = false;
  }
  // What was usual before this look, so that its own iterations are not compared with themselves.
  std::map<BatchSize, std::int64_t> usual;
  for (const auto& [size, times] : engine.usual) {
    if (times.size() >= kUsualKnown) usual.emplace(size, MedianTime(times));
  }
  for (const EngineIteration& iteration : told.iterations) {
    if (!iteration.end || iteration.begin <= engine.judged) continue;
    engine.judged = iteration.begin;
    const BatchSize size = SizeOf(iteration);
    if (const auto known = usual.find(size); known != usual.end())
      JudgeIteration(told, iteration, known->second, engine, found);
    std::deque<std::int64_t>& times = engine.usual[size];
    times.push_back((*iteration.end - iteration.begin).count());
    if (times.size() > kUsualWindow) times.pop_front();
  }
}

void EngineSignRules::JudgeIteration(const EngineReading& told, const EngineIteration& iteration,
                                     std::int64_t usual_ns, Engine& engine,
                                     std::vector<FoundSign>& found) const {
  const std::int64_t took_ns = (*iteration.end - iteration.begin).count();
  for (const v1::SignRule& rule : rules_) {
    if (rule.kind() != v1::SIGN_ITERATION_SLOWER ||
        static_cast<double>(took_ns) <=
            static_cast<double>(usual_ns) * (1 + rule.percent() / 100.0))
      continue;
    Watch& watch = engine.watches[rule.id()];
    watch.slow.push_back(*iteration.end);
    const std::size_t needed = std::max<std::size_t>(rule.steps(), 1);
    if (watch.slow.size() > needed) watch.slow.pop_front();
    if (watch.slow.size() < needed || std::exchange(watch.slowed, true)) continue;
    FoundSign& sign = found.emplace_back(SignOf(rule, told, iteration.begin));
    sign.sign.set_step_ns(took_ns);
    sign.sign.set_usual_step_ns(usual_ns);
    sign.sign.set_batch_requests(iteration.requests);
    sign.sign.set_batch_tokens(iteration.tokens);
  }
}

void EngineSignRules::JudgeStall(const EngineReading& told, MonoTime now, Engine& engine,
                                 std::vector<FoundSign>& found) const {
  for (const v1::SignRule& rule : rules_) {
    if (rule.kind() == v1::SIGN_ITERATION_SLOWER) continue;
    const bool stalled = StandsStill(told, now, LimitsOf(rule));
    bool& known = engine.watches[rule.id()].stalled;
    if (std::exchange(known, stalled) || !stalled) continue;
    FoundSign& sign = found.emplace_back(SignOf(rule, told, StalledSince(told).value_or(now)));
    sign.sign.set_usual_step_ns(UsualOf(told));
    if (!told.iterations.empty()) {
      sign.sign.set_batch_requests(told.iterations.back().requests);
      sign.sign.set_batch_tokens(told.iterations.back().tokens);
    }
  }
}

}  // namespace strobe::session
