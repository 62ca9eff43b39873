#include "collector/analysis/verdict.h"

#include <algorithm>
#include <optional>

#include "collector/base/duration.h"
#include "collector/base/status_macros.h"
#include "collector/base/strings.h"
#include "collector/xplane/names.h"

namespace strobe {
namespace {

using xplane::PlaneSummary;
using xplane::TraceSummary;

// What the capture was asked for, as the sidecar stamped it into the trace.
absl::StatusOr<std::optional<Window>> AskedWindow(const xplane::Space& space) {
  std::optional<Window> none;
  const xplane::Plane* plane = space.Find(xplane::kStrobePlane);
  if (plane == nullptr) return none;
  std::optional<std::int64_t> instant, duration;
  RETURN_IF_ERROR(plane->ForEachStat([&](const xplane::Stat& stat) {
    if (plane->NameOf(stat) == "instant_ns") instant = stat.Integer();
    if (plane->NameOf(stat) == "duration_ns") duration = stat.Integer();
  }));
  if (!instant || !duration) return none;
  return Window{FromUnixNanos(*instant), Nanos{*duration}};
}

std::string Count(std::uint64_t number, std::string_view what) {
  return StrCat(number, " ", what, number == 1 ? "" : "s");
}

void AddTimes(const TraceSummary& trace, const std::optional<Window>& window,
              std::vector<std::string>& evidence) {
  if (trace.started_ns != 0 && trace.stopped_ns > trace.started_ns) {
    evidence.push_back(
        StrCat("recorded for ", FormatDuration(Nanos{trace.stopped_ns - trace.started_ns}),
               window ? StrCat(", asked for ", FormatDuration(window->duration)) : std::string()));
  } else if (trace.started_ns == 0) {
    evidence.emplace_back("the trace does not say when it was recorded");
  }
}

void AddPlanes(const TraceSummary& trace, std::vector<std::string>& evidence) {
  std::uint64_t host = 0, device = 0, devices = 0;
  for (const PlaneSummary& plane : trace.planes) {
    const bool is_device = plane.name.starts_with(xplane::kDevicePrefix);
    if (is_device) {
      ++devices;
      device += plane.events;
      if (plane.events == 0) evidence.push_back(StrCat(plane.name, " has no event"));
    } else {
      host += plane.events;
    }
  }
  evidence.push_back(
      StrCat(Count(host, "event"), " of hosts, ",
             devices == 0 ? "no plane of a device"
                          : StrCat(Count(device, "event"), " of ", Count(devices, "device"))));
}

// A window that no step fits into explains much of what looks empty.
void AddSteps(const std::vector<Step>& steps, std::vector<std::string>& evidence) {
  if (steps.empty()) {
    evidence.emplace_back(
        "no training step is told of: none ended within the window, or the loop is not annotated");
    return;
  }
  std::vector<std::int64_t> lengths;
  for (const Step& step : steps) lengths.push_back(step.end_ps - step.begin_ps);
  std::nth_element(lengths.begin(),
                   lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2),
                   lengths.end());
  evidence.push_back(StrCat(Count(steps.size(), "training step"), " of about ",
                            FormatDuration(Nanos{lengths[lengths.size() / 2] / 1000})));
}

}  // namespace

absl::StatusOr<Verdict> JudgeSpace(const xplane::Space& space, const std::vector<Step>& steps,
                                   bool expects_device) {
  ASSIGN_OR_RETURN(const TraceSummary trace, xplane::Summarize(space));
  ASSIGN_OR_RETURN(const std::optional<Window> window, AskedWindow(space));
  Verdict verdict{.judgement = JudgeTrace(trace, window, expects_device)};
  AddTimes(trace, window, verdict.evidence);
  AddPlanes(trace, verdict.evidence);
  AddSteps(steps, verdict.evidence);
  return verdict;
}

}  // namespace strobe
