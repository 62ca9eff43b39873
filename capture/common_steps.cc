#include "capture/common_steps.h"

#include <algorithm>
#include <vector>

#include "common/base/strings.h"

namespace strobe::capture {

std::optional<CommonSteps> FindCommonSteps(std::span<const StepsOfWorker> workers) {
  if (workers.empty()) return std::nullopt;
  const v1::RecordedSteps& one = workers.front().steps;
  CommonSteps common{.loop = one.loop(), .first = one.first(), .last = one.last()};
  for (const StepsOfWorker& worker : workers) {
    if (worker.steps.loop() != common.loop) return std::nullopt;
    common.first = std::max(common.first, worker.steps.first());
    common.last = std::min(common.last, worker.steps.last());
  }
  if (common.first > common.last) return std::nullopt;
  std::vector<analysis::CorrectedStart> begins;
  for (const auto& [steps, offset, error] : workers) {
    if (steps.first() == common.first)
      begins.push_back({FromUnixNanos(steps.began_ns()), offset, error});
  }
  if (begins.size() == workers.size()) common.spread = analysis::ComputeSkew(begins);
  return common;
}

std::string Describe(const CommonSteps& steps) {
  return steps.first == steps.last
             ? StrCat("step ", steps.first, " of ", steps.loop)
             : StrCat("steps ", steps.first, " to ", steps.last, " of ", steps.loop);
}

}  // namespace strobe::capture
