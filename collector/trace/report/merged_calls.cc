#include "collector/trace/report/merged_calls.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

#include "common/base/saturated.h"

namespace strobe::report {
namespace {

// The ordinal of the first call of each step. The calls are those of one key, by ordinal.
std::map<std::int64_t, std::int64_t> FirstOfSteps(std::span<const MergedCall> calls) {
  std::map<std::int64_t, std::int64_t> first;
  for (const MergedCall& call : calls) {
    const auto [entry, fresh] = first.try_emplace(call.step, call.ordinal);
    if (!fresh) entry->second = std::min(entry->second, call.ordinal);
  }
  return first;
}

// The median distance between the ends of calls that are the same if this shift is right.
std::int64_t EndDistance(std::span<const MergedCall> calls, std::span<const MergedCall> reference,
                         std::int64_t shift) {
  std::vector<std::int64_t> distances;
  std::size_t at = 0;
  for (const MergedCall& call : calls) {
    while (at < reference.size() && reference[at].ordinal < call.ordinal - shift) ++at;
    if (at == reference.size()) break;
    if (reference[at].ordinal == call.ordinal - shift)
      distances.push_back(std::llabs(AddSaturated(call.end_ns, -reference[at].end_ns)));
  }
  if (distances.empty()) return std::numeric_limits<std::int64_t>::max();
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  return *middle;
}

// By how much the calls' ordinals exceed those of the reference; false if no step is common.
bool FindShift(std::span<const MergedCall> calls, std::span<const MergedCall> reference,
               const std::map<std::int64_t, std::int64_t>& first_of_reference, bool compare_times,
               std::int64_t& shift) {
  std::map<std::int64_t, std::size_t> votes;
  for (const auto& [step, ordinal] : FirstOfSteps(calls)) {
    const auto entry = first_of_reference.find(step);
    if (entry != first_of_reference.end()) ++votes[ordinal - entry->second];
  }
  if (votes.empty()) return false;
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  shift = most->first;
  if (votes.size() == 1 || !compare_times) return true;
  // Workers may assign a call near the border of two steps to different steps, and then their votes
  // differ. The shift with the smallest median difference of end times wins.
  constexpr std::size_t kMaxCandidates = 8;
  std::int64_t best = EndDistance(calls, reference, shift);
  std::size_t tried = 0;
  for (const auto& [candidate, count] : votes) {
    if (++tried > kMaxCandidates) break;
    const std::int64_t distance = EndDistance(calls, reference, candidate);
    if (distance >= best) continue;
    best = distance;
    shift = candidate;
  }
  return true;
}

}  // namespace

std::span<const MergedCall> CallsOf(const CallList& calls, std::uint32_t key) {
  const auto begin = std::partition_point(calls.begin(), calls.end(),
                                          [&](const MergedCall& call) { return call.key < key; });
  const auto end = std::partition_point(begin, calls.end(),
                                        [&](const MergedCall& call) { return call.key == key; });
  return {begin, end};
}

std::vector<CallOrder> OrderCalls(std::span<const CallList> workers, std::size_t keys,
                                  const std::vector<bool>& numbered,
                                  const std::vector<bool>& clock_known) {
  struct Part {
    std::size_t worker;
    std::span<const MergedCall> calls;
  };
  std::vector<std::vector<Part>> parts(keys);
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    for (std::size_t i = 0; i < workers[worker].size();) {
      const auto calls = CallsOf(workers[worker], workers[worker][i].key);
      parts[workers[worker][i].key].push_back({worker, calls});
      i += calls.size();
    }
  }
  std::vector<CallOrder> orders(keys);
  for (std::size_t key = 0; key < keys; ++key) {
    if (parts[key].empty()) continue;
    const Part& reference = *std::max_element(
        parts[key].begin(), parts[key].end(),
        [](const Part& a, const Part& b) { return a.calls.size() < b.calls.size(); });
    orders[key].reference = reference.worker;
    const auto first = FirstOfSteps(reference.calls);
    for (const Part& part : parts[key]) {
      std::int64_t shift = 0;
      const bool times = clock_known[part.worker] && clock_known[reference.worker];
      if (numbered[key] || FindShift(part.calls, reference.calls, first, times, shift))
        orders[key].shift.emplace(part.worker, shift);
    }
  }
  return orders;
}

}  // namespace strobe::report
