// The steps and calls of workers as the merging of digests keeps them, and which calls of different
// workers are the same one.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace strobe::report {

// One worker's part in one call of a collective.
struct MergedCall {
  std::uint32_t key = 0;  // The number of its communicator and name.
  std::int64_t ordinal = 0;
  std::int64_t sequence = -1;             // As digest::Collective.
  std::int64_t step = 0;                  // The number of the worker's step in which it began.
  std::int64_t begin_ns = 0, end_ns = 0;  // On the common clock.
};

// The calls of one worker, by key and ordinal.
using CallList = std::vector<MergedCall>;

// What the ordinals of one key mean.
struct CallOrder {
  // By worker, how much its ordinals exceed those of the reference. Has no entry for workers that
  // could not be matched.
  std::unordered_map<std::size_t, std::int64_t> shift{};
  std::size_t reference = 0;  // The worker with most calls.
};

// Finds the order of each key. `workers` holds the calls of each worker. Ordinals of keys for which
// `numbered` is true are the same on all workers already. `clock_known` tells of each worker
// whether times of different workers can be compared.
std::vector<CallOrder> OrderCalls(std::span<const CallList> workers, std::size_t keys,
                                  const std::vector<bool>& numbered,
                                  const std::vector<bool>& clock_known);

// The calls of a worker with this key.
std::span<const MergedCall> CallsOf(const CallList& calls, std::uint32_t key);

}  // namespace strobe::report
