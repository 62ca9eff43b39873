#include "viewer/comparison.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "collector/analysis/steps.h"
#include "common/base/status_macros.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxParts = 200'000;  // In one answer: about 16 MB.

// One worker's share of a step.
struct Part {
  std::uint32_t worker = 0;
  std::int64_t begin_ps = 0, end_ps = 0;
};

// A step of all workers that ran it. Names point into the traces, which stay open.
struct Compared {
  std::string_view name;
  std::int64_t number = 0, begin_ps = 0, end_ps = 0;
  std::vector<Part> parts{};
};

absl::StatusOr<std::vector<Compared>> ReadSteps(const LoadedRun& run) {
  std::map<std::pair<std::string_view, std::int64_t>, std::vector<Part>> steps;
  for (std::uint32_t i = 0; i < run.workers.size(); ++i) {
    const Worker& worker = run.workers[i];
    ASSIGN_OR_RETURN(const xplane::Space space, convert::ReadSpace(worker.trace.bytes()));
    ASSIGN_OR_RETURN(const std::vector<analysis::Step> found, analysis::FindSteps(space));
    const auto on_clock = [&worker](std::int64_t ps) {
      return std::clamp(ps, -kMaxTimePs, kMaxTimePs) + worker.shift_ps;
    };
    for (const analysis::Step& step : found)
      steps[{step.name, step.number}].push_back(
          {i, on_clock(step.begin_ps), on_clock(step.end_ps)});
  }
  std::vector<Compared> all;
  all.reserve(steps.size());
  for (auto& [key, parts] : steps) {
    const auto begin = std::ranges::min(parts, {}, &Part::begin_ps).begin_ps;
    const auto end = std::ranges::max(parts, {}, &Part::end_ps).end_ps;
    all.push_back({key.first, key.second, begin, end, std::move(parts)});
  }
  return all;
}

Json TimesOf(const std::vector<Compared>& steps) {
  std::vector<std::int64_t> times;
  for (const Compared& step : steps) {
    for (const Part& part : step.parts) times.push_back(part.end_ps - part.begin_ps);
  }
  if (times.empty()) return nullptr;
  std::ranges::sort(times);
  return {{"medianPs", times[times.size() / 2]},
          {"p95Ps", times[times.size() * 95 / 100]},
          {"leastPs", times.front()},
          {"mostPs", times.back()}};
}

// Leaves the longest steps, in the order of their begins.
void KeepLongest(std::vector<Compared>& steps) {
  std::ranges::stable_sort(steps, std::greater<>(),
                           [](const Compared& step) { return step.end_ps - step.begin_ps; });
  std::size_t kept = 0, parts = 0;
  while (kept < std::min(steps.size(), kMaxComparedSteps)) {
    parts += steps[kept].parts.size();
    if (parts > kMaxParts && kept > 0) break;
    ++kept;
  }
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(kept), steps.end());
  std::ranges::stable_sort(steps, {}, &Compared::begin_ps);
}

Json ToJson(const Compared& step) {
  const auto [first, last] = std::ranges::minmax_element(step.parts, {}, &Part::begin_ps);
  const auto [soonest, latest] = std::ranges::minmax_element(step.parts, {}, &Part::end_ps);
  Json workers = Json::array();
  for (const Part& part : step.parts)
    workers.push_back(
        {{"worker", part.worker}, {"beginPs", part.begin_ps}, {"endPs", part.end_ps}});
  return {{"name", step.name},
          {"number", step.number},
          {"beginPs", step.begin_ps},
          {"endPs", step.end_ps},
          {"firstToBegin", first->worker},
          {"lastToBegin", last->worker},
          {"beginSpreadPs", last->begin_ps - first->begin_ps},
          {"lastToEnd", latest->worker},
          {"endSpreadPs", latest->end_ps - soonest->end_ps},
          {"workers", std::move(workers)}};
}

absl::StatusOr<std::string> Compare(const LoadedRun& run) {
  ASSIGN_OR_RETURN(std::vector<Compared> steps, ReadSteps(run));
  Json answer = {{"count", steps.size()}, {"times", TimesOf(steps)}, {"steps", Json::array()}};
  KeepLongest(steps);
  for (const Compared& step : steps) answer["steps"].push_back(ToJson(step));
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<std::string> CompareSteps(const LoadedRun& run) {
  LazyAnswer& steps = *run.steps;
  MutexLock lock(&steps.mutex);
  if (steps.text.empty()) {
    ASSIGN_OR_RETURN(steps.text, Compare(run));
  }
  return steps.text;
}

}  // namespace strobe::viewer
