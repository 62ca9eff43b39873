#include "collector/trace/analysis/steps.h"

#include <algorithm>
#include <map>

#include "collector/trace/xplane/names.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"

namespace strobe::analysis {
namespace {

// All recordings of the step with one number.
struct Recorded {
  std::size_t times = 0;
  std::int64_t begin_ps = 0, end_ps = 0;
};

Step StepOf(std::string_view name, std::int64_t number, const xplane::Line& line,
            const xplane::Event& event) {
  std::int64_t origin = 0;
  if (__builtin_mul_overflow(line.timestamp_ns, std::int64_t{1000}, &origin))
    origin = line.timestamp_ns > 0 ? std::numeric_limits<std::int64_t>::max()
                                   : -std::numeric_limits<std::int64_t>::max();
  const std::int64_t begin = AddSaturated(origin, event.offset_ps);
  return {.name = name,
          .number = number,
          .begin_ps = begin,
          .end_ps = AddSaturated(begin, std::max<std::int64_t>(event.duration_ps, 0))};
}

std::map<std::int64_t, Recorded> ByNumber(std::span<const Step> steps, std::string_view name,
                                          std::int64_t first, std::int64_t last) {
  std::map<std::int64_t, Recorded> numbers;
  for (const Step& step : steps) {
    if (step.name != name || step.number < first || step.number > last) continue;
    const auto [entry, fresh] = numbers.try_emplace(step.number, Recorded{0, step.begin_ps, 0});
    Recorded& recorded = entry->second;
    ++recorded.times;
    recorded.begin_ps = std::min(recorded.begin_ps, step.begin_ps);
    recorded.end_ps = fresh ? step.end_ps : std::max(recorded.end_ps, step.end_ps);
  }
  return numbers;
}

}  // namespace

absl::StatusOr<std::vector<Step>> FindSteps(const xplane::Space& space, std::size_t max) {
  std::vector<Step> steps;
  for (const xplane::Plane& plane : space.planes) {
    const std::int64_t number_id = plane.StatId("step_num");
    if (number_id == 0 || !plane.name.starts_with(xplane::kHostPlane)) continue;
    for (const xplane::Line& line : plane.lines) {
      // Read in place: a line may have many millions of events, of which few are steps.
      absl::Status read;
      RETURN_IF_ERROR(ForEachEvent(line, [&](const xplane::Event& event) {
        if (event.occurrences != 0 || steps.size() >= max) return;
        read.Update(ForEachInteger(event, [&](std::int64_t name_id, std::int64_t number) {
          if (name_id == number_id)
            steps.push_back(StepOf(plane.NameOf(event), number, line, event));
        }));
      }));
      RETURN_IF_ERROR(read);
    }
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.begin_ps < b.begin_ps; });
  return steps;
}

std::optional<StepRun> LongestRun(std::span<const Step> steps, std::string_view name,
                                  std::size_t processes, std::int64_t first, std::int64_t last) {
  const std::map<std::int64_t, Recorded> numbers = ByNumber(steps, name, first, last);
  for (const auto& [number, recorded] : numbers) {
    if (processes < recorded.times) processes = recorded.times;
  }
  std::optional<StepRun> longest, run;
  for (const auto& [number, recorded] : numbers) {
    if (recorded.times < processes) continue;
    if (!run || number != run->last + 1)
      run = StepRun{.name = name,
                    .first = number,
                    .last = number,
                    .begin_ps = recorded.begin_ps,
                    .end_ps = recorded.end_ps};
    run->last = number;
    run->end_ps = recorded.end_ps;
    if (!longest || run->last - run->first > longest->last - longest->first ||
        run->first == longest->first)
      longest = run;
  }
  return longest;
}

std::string_view MainLoop(std::span<const Step> steps) {
  std::map<std::string_view, std::int64_t> taken;
  for (const Step& step : steps) {
    std::int64_t& time = taken[step.name];
    time = AddSaturated(time, step.end_ps - step.begin_ps);
  }
  const auto longest = std::max_element(
      taken.begin(), taken.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return longest == taken.end() ? std::string_view() : longest->first;
}

}  // namespace strobe::analysis
