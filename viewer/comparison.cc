#include "viewer/comparison.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "collector/analysis/steps.h"
#include "common/base/status_macros.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;

// One worker's share of a step.
struct Part {
  std::uint32_t worker = 0;
  std::int64_t begin_ps = 0, end_ps = 0;
};

absl::StatusOr<std::string> ReadSteps(const LoadedRun& run) {
  // By name and number. The names point into the traces, which stay open.
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
  Json json = Json::array();
  for (const auto& [key, parts] : steps) {
    const auto by_begin = [](const Part& a, const Part& b) { return a.begin_ps < b.begin_ps; };
    const auto by_end = [](const Part& a, const Part& b) { return a.end_ps < b.end_ps; };
    const auto [first, last] = std::minmax_element(parts.begin(), parts.end(), by_begin);
    const auto [soonest, latest] = std::minmax_element(parts.begin(), parts.end(), by_end);
    Json workers = Json::array();
    for (const Part& part : parts)
      workers.push_back(
          {{"worker", part.worker}, {"beginPs", part.begin_ps}, {"endPs", part.end_ps}});
    json.push_back({{"name", key.first},
                    {"number", key.second},
                    {"beginPs", first->begin_ps},
                    {"endPs", latest->end_ps},
                    {"firstToBegin", first->worker},
                    {"lastToBegin", last->worker},
                    {"beginSpreadPs", last->begin_ps - first->begin_ps},
                    {"lastToEnd", latest->worker},
                    {"endSpreadPs", latest->end_ps - soonest->end_ps},
                    {"workers", std::move(workers)}});
  }
  std::sort(json.begin(), json.end(), [](const Json& a, const Json& b) {
    return a["beginPs"].get<std::int64_t>() < b["beginPs"].get<std::int64_t>();
  });
  return Json{{"steps", std::move(json)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<std::string> CompareSteps(const LoadedRun& run) {
  LazyAnswer& steps = *run.steps;
  MutexLock lock(&steps.mutex);
  if (steps.text.empty()) {
    ASSIGN_OR_RETURN(steps.text, ReadSteps(run));
  }
  return steps.text;
}

}  // namespace strobe::viewer
