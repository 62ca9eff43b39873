#include "viewer/answers/comparison.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "collector/trace/analysis/steps.h"
#include "common/base/status_macros.h"
#include "common/text/json.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxParts = 200'000;  // In one answer: about 16 MB.

absl::StatusOr<ComparedSteps> ReadSteps(const LoadedRun& run,
                                        const std::function<bool()>& is_gone) {
  std::vector<analysis::Step> all;
  std::map<std::pair<std::string_view, std::int64_t>, std::vector<StepPart>> steps;
  for (std::uint32_t i = 0; i < run.workers.size(); ++i) {
    if (is_gone && is_gone()) return absl::CancelledError("nobody waits for the steps any more");
    const Worker& worker = run.workers[i];
    ASSIGN_OR_RETURN(const xplane::Space space, convert::ReadSpace(worker.files->trace.bytes()));
    ASSIGN_OR_RETURN(const std::vector<analysis::Step> found, analysis::FindSteps(space));
    const auto on_clock = [&worker](std::int64_t ps) {
      return std::clamp(ps, -kMaxTimePs, kMaxTimePs) + worker.shift_ps;
    };
    all.insert(all.end(), found.begin(), found.end());
    for (const analysis::Step& step : found)
      steps[{step.name, step.number}].push_back(
          {i, on_clock(step.begin_ps), on_clock(step.end_ps)});
  }
  ComparedSteps compared{.main_loop = std::string(analysis::MainLoop(all))};
  compared.all.reserve(steps.size());
  for (auto& [key, parts] : steps) {
    const auto begin = std::ranges::min(parts, {}, &StepPart::begin_ps).begin_ps;
    const auto end = std::ranges::max(parts, {}, &StepPart::end_ps).end_ps;
    compared.all.push_back({.name = std::string(key.first),
                            .number = key.second,
                            .begin_ps = begin,
                            .end_ps = end,
                            .parts = std::move(parts)});
  }
  return compared;
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

std::string ToText(const Json& json) { return JsonText(json); }

// Calls answer(steps) with the steps of the run.
template <typename Result, typename Answer>
absl::StatusOr<Result> WithSteps(const LoadedRun& run, const std::function<bool()>& is_gone,
                                 const Answer& answer) {
  LazySteps& lazy = *run.steps;
  MutexLock lock(&lazy.mutex);
  if (!lazy.steps) {
    ASSIGN_OR_RETURN(lazy.steps, ReadSteps(run, is_gone));
  }
  return answer(*lazy.steps);
}

}  // namespace

absl::StatusOr<ComparedSteps> StepsOf(const LoadedRun& run, const std::function<bool()>& is_gone) {
  return WithSteps<ComparedSteps>(run, is_gone, [](const ComparedSteps& steps) { return steps; });
}

absl::StatusOr<std::string> CompareSteps(const LoadedRun& run,
                                         const std::function<bool()>& is_gone) {
  return WithSteps<std::string>(run, is_gone, [](const ComparedSteps& steps) {
    Json answer = {
        {"count", steps.all.size()}, {"times", TimesOf(steps.all)}, {"steps", Json::array()}};
    for (const ComparedStep* step : Longest(steps.all)) answer["steps"].push_back(ToJson(*step));
    return ToText(answer);
  });
}

const ComparedStep* FindStep(const ComparedSteps& steps, std::int64_t number) {
  const auto found = std::ranges::find_if(steps.all, [&](const ComparedStep& step) {
    return step.number == number && step.name == steps.main_loop;
  });
  return found == steps.all.end() ? nullptr : &*found;
}

absl::StatusOr<std::string> FindComparedStep(const LoadedRun& run, std::int64_t number,
                                             const std::function<bool()>& is_gone) {
  return WithSteps<std::string>(run, is_gone, [number](const ComparedSteps& steps) {
    const ComparedStep* step = FindStep(steps, number);
    return ToText(Json{{"step", step == nullptr ? Json(nullptr) : ToJson(*step)}});
  });
}

}  // namespace strobe::viewer
