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

absl::StatusOr<std::vector<ComparedStep>> ReadSteps(const LoadedRun& run) {
  std::map<std::pair<std::string_view, std::int64_t>, std::vector<StepPart>> steps;
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
  std::vector<ComparedStep> all;
  all.reserve(steps.size());
  for (auto& [key, parts] : steps) {
    const auto begin = std::ranges::min(parts, {}, &StepPart::begin_ps).begin_ps;
    const auto end = std::ranges::max(parts, {}, &StepPart::end_ps).end_ps;
    all.push_back({std::string(key.first), key.second, begin, end, std::move(parts)});
  }
  return all;
}

Json TimesOf(const std::vector<ComparedStep>& steps) {
  std::vector<std::int64_t> times;
  for (const ComparedStep& step : steps) {
    for (const StepPart& part : step.parts) times.push_back(part.end_ps - part.begin_ps);
  }
  if (times.empty()) return nullptr;
  std::ranges::sort(times);
  return {{"medianPs", times[times.size() / 2]},
          {"p95Ps", times[times.size() * 95 / 100]},
          {"leastPs", times.front()},
          {"mostPs", times.back()}};
}

// The longest steps, in the order of their begins.
std::vector<const ComparedStep*> Longest(const std::vector<ComparedStep>& steps) {
  std::vector<const ComparedStep*> longest;
  longest.reserve(steps.size());
  for (const ComparedStep& step : steps) longest.push_back(&step);
  std::ranges::stable_sort(longest, std::greater<>(),
                           [](const ComparedStep* step) { return step->end_ps - step->begin_ps; });
  std::size_t kept = 0, parts = 0;
  while (kept < std::min(steps.size(), kMaxComparedSteps)) {
    parts += longest[kept]->parts.size();
    if (parts > kMaxParts && kept > 0) break;
    ++kept;
  }
  longest.resize(kept);
  std::ranges::stable_sort(longest, {}, &ComparedStep::begin_ps);
  return longest;
}

// The name of the steps that take most of the workers' time. `steps` are ordered by name.
std::string_view MainLoopOf(const std::vector<ComparedStep>& steps) {
  std::string_view main, loop;
  double most = -1, taken = 0;
  for (const ComparedStep& step : steps) {
    if (step.name != loop) taken = 0;
    loop = step.name;
    for (const StepPart& part : step.parts)
      taken += static_cast<double>(part.end_ps) - static_cast<double>(part.begin_ps);
    if (taken > most) {
      most = taken;
      main = loop;
    }
  }
  return main;
}

Json ToJson(const ComparedStep& step) {
  const auto [first, last] = std::ranges::minmax_element(step.parts, {}, &StepPart::begin_ps);
  const auto [soonest, latest] = std::ranges::minmax_element(step.parts, {}, &StepPart::end_ps);
  Json workers = Json::array();
  for (const StepPart& part : step.parts)
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

std::string ToText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Calls answer(steps) with all steps of the run, ordered by name and number.
template <typename Answer>
absl::StatusOr<std::string> WithSteps(const LoadedRun& run, const Answer& answer) {
  LazySteps& steps = *run.steps;
  MutexLock lock(&steps.mutex);
  if (!steps.all) {
    ASSIGN_OR_RETURN(steps.all, ReadSteps(run));
  }
  return ToText(answer(*steps.all));
}

}  // namespace

absl::StatusOr<std::string> CompareSteps(const LoadedRun& run) {
  return WithSteps(run, [](const std::vector<ComparedStep>& steps) {
    Json answer = {{"count", steps.size()}, {"times", TimesOf(steps)}, {"steps", Json::array()}};
    for (const ComparedStep* step : Longest(steps)) answer["steps"].push_back(ToJson(*step));
    return answer;
  });
}

absl::StatusOr<std::string> FindComparedStep(const LoadedRun& run, std::int64_t number) {
  return WithSteps(run, [number](const std::vector<ComparedStep>& steps) {
    const std::string_view loop = MainLoopOf(steps);
    const auto found = std::ranges::find_if(steps, [&](const ComparedStep& step) {
      return step.number == number && step.name == loop;
    });
    return Json{{"step", found == steps.end() ? Json(nullptr) : ToJson(*found)}};
  });
}

}  // namespace strobe::viewer
