// What the iterations of an inference server's engines took, by the size of their batches, and what
// lay between them. Pure.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/trace/digest/digest.h"

namespace strobe::report {

// A mixed batch holds requests of both kinds.
enum class BatchPhase : std::uint8_t { kDecode, kPrefill, kMixed };
std::string_view NameOf(BatchPhase phase);  // "decode"

// Why an engine did not iterate, by what its scheduler saw when it planned the next iteration.
enum class GapReason : std::uint8_t {
  kNoRequests,  // No request ran: the engine had nothing to do.
  kScheduling,  // Requests ran, which waited for the scheduler and the rest of the program.
  kNotTold,     // The trace has no events of the scheduler.
};
std::string_view NameOf(GapReason reason);  // "no requests"

// Batches are alike in the number of requests, if they only decode, and else in the number of
// prompt tokens.
struct BatchTimes {
  BatchPhase phase{};
  std::int64_t least = 0, most = 0;  // The smallest and the largest of these numbers.
  std::uint64_t iterations = 0;
  std::int64_t tokens = 0;  // All that they processed.
  std::int64_t total_ns = 0, p50_ns = 0, p99_ns = 0, max_ns = 0;
  double share = 0;  // In the time from the first to the last iteration.
};

// "5 to 8 requests", "468 tokens".
std::string SizeText(const BatchTimes& times);

struct GapTimes {
  GapReason reason{};
  std::uint64_t gaps = 0;
  std::int64_t total_ns = 0, max_ns = 0;
  double share = 0;
};

struct EngineReport {
  std::vector<BatchTimes> phases{};  // Each that there was.
  std::vector<BatchTimes> sizes{};   // By phase and size; sizes are powers of two apart.
  std::vector<GapTimes> gaps{};
  double idle = 0;  // The share of the time between iterations.
  bool empty() const { return phases.empty(); }
};

// Takes one digest after the other. Memory is bounded.
class EngineTimes {
 public:
  void Add(const digest::Digest& digest);
  EngineReport Finish();

 private:
  // Quantiles are those of the first so many iterations of a size.
  static constexpr std::size_t kMaxDurations = 20'000;
  struct Sum {
    BatchTimes times{};
    std::vector<std::int64_t> durations{};
  };
  struct Gaps {
    std::int64_t iterations_ns = 0, gaps_ns = 0;
    std::array<GapTimes, 3> by_reason{};
    void Add(const Gaps& more);
  };
  static Gaps GapsOf(const digest::Digest& digest);
  static void AddTo(Sum& sum, BatchPhase phase, const digest::Step& step);
  static BatchTimes Summary(Sum& sum);

  std::array<Sum, 3> phases_{};                        // By phase.
  std::map<std::pair<BatchPhase, int>, Sum> sizes_{};  // By phase and how often the size halves.
  // Gaps of workers whose traces tell of the scheduler, and of others, such as further ranks of the
  // same engines. The latter count only if there are none of the former.
  Gaps with_schedule_{}, without_schedule_{};
};

// For example "decode 10.1ms at 1 to 9 requests (141), prefill 112ms at 30 to 468 tokens (7); 12%
// between iterations, most of it without requests".
std::string EngineHeadline(const EngineReport& engine);
// The headline of a run: what the engines tell comes before what is told of stragglers, and that is
// left out for a single worker.
std::string WithEngine(const EngineReport& engine, std::size_t workers, std::string headline);

nlohmann::ordered_json EngineToJson(const EngineReport& engine);

}  // namespace strobe::report
