#include "collector/trace/analysis/verdict.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_format.h"
#include "collector/trace/xplane/names.h"
#include "common/base/duration.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::analysis {
namespace {

using xplane::PlaneSummary;
using xplane::TraceSummary;

std::string_view TextOf(const xplane::Stat& stat) {
  const auto* text = std::get_if<std::string_view>(&stat.value);
  return text == nullptr ? std::string_view() : *text;
}

// What the sidecar wrote into the trace's Strobe plane.
struct Stamp {
  Requested requested{};
  Judgement judged{};  // kUnknown when the plane has no outcome.
  // How the job fared; 0 where nothing was measured.
  std::int64_t memory_percent = 0, step_before_ns = 0, step_during_ns = 0;
  // The steps that were asked for, and the complete ones.
  std::int64_t steps_asked = 0, first_asked = 0;
  std::optional<std::int64_t> first_step{}, last_step{};
  std::string loop{};
};

absl::StatusOr<Stamp> ReadStamp(const xplane::Space& space) {
  Stamp stamp;
  const xplane::Plane* plane = space.Find(xplane::kStrobePlane);
  if (plane == nullptr) return stamp;
  std::optional<std::int64_t> instant, duration;
  RETURN_IF_ERROR(plane->ForEachStat([&](const xplane::Stat& stat) {
    const std::string_view name = plane->NameOf(stat);
    if (name == "instant_ns") instant = stat.Integer();
    if (name == "duration_ns") duration = stat.Integer();
    if (name == "expects_device") stamp.requested.expects_device = stat.Integer() == 1;
    if (name == "tracers_host")
      stamp.requested.host_level = static_cast<std::uint32_t>(stat.Integer().value_or(0));
    if (name == "outcome") stamp.judged.outcome = OutcomeOfName(TextOf(stat));
    if (name == "message") stamp.judged.message = std::string(TextOf(stat));
    if (name == "steps_asked") stamp.steps_asked = stat.Integer().value_or(0);
    if (name == "steps_asked_first") stamp.first_asked = stat.Integer().value_or(0);
    if (name == "steps_first") stamp.first_step = stat.Integer();
    if (name == "steps_last") stamp.last_step = stat.Integer();
    if (name == "steps_loop") stamp.loop = std::string(TextOf(stat));
    if (name == "job_memory_percent") stamp.memory_percent = stat.Integer().value_or(0);
    if (name == "job_step_before_ns") stamp.step_before_ns = stat.Integer().value_or(0);
    if (name == "job_step_during_ns") stamp.step_during_ns = stat.Integer().value_or(0);
  }));
  if (instant && duration)
    stamp.requested.window = Window{FromUnixNanos(*instant), Nanos{*duration}};
  return stamp;
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
    const bool is_device = xplane::IsDevicePlane(plane.name);
    if (is_device) {
      ++devices;
      device += plane.events;
      if (plane.events == plane.values)
        evidence.push_back(StrCat(plane.name, plane.events == 0
                                                  ? " has no event"
                                                  : " has no event but values of counters"));
    } else {
      host += plane.events;
    }
  }
  evidence.push_back(
      StrCat(Count(host, "event"), " on hosts, ",
             devices == 0 ? "no device plane"
                          : StrCat(Count(device, "event"), " on ", Count(devices, "device"))));
}

// Tells how long steps take: a window that is shorter than a step explains missing events.
void AddSteps(const std::vector<Step>& steps, std::vector<std::string>& evidence) {
  if (steps.empty()) {
    evidence.emplace_back(
        "no training step was found: none ended within the window, or the loop is not annotated");
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

void AddCompleteSteps(const Stamp& stamp, std::vector<std::string>& evidence) {
  if (!stamp.first_step || !stamp.last_step) return;
  std::string text =
      StrCat("complete: steps ", *stamp.first_step, " to ", *stamp.last_step, " of ", stamp.loop);
  if (stamp.steps_asked > 0)
    text += StrCat(", asked for ", stamp.first_asked, " to ",
                   AddSaturated(stamp.first_asked, stamp.steps_asked - 1));
  evidence.push_back(std::move(text));
}

// Tells what the capture cost the job, as far as it was measured.
void AddJob(const Stamp& stamp, std::vector<std::string>& evidence) {
  if (stamp.step_before_ns > 0 && stamp.step_during_ns > 0) {
    const double ratio =
        static_cast<double>(stamp.step_during_ns) / static_cast<double>(stamp.step_before_ns);
    evidence.push_back(absl::StrFormat("steps took %s while recorded, %s before (%+.0f%%)",
                                       FormatDuration(Nanos{stamp.step_during_ns}),
                                       FormatDuration(Nanos{stamp.step_before_ns}),
                                       (ratio - 1) * 100));
  }
  if (stamp.memory_percent > 0)
    evidence.push_back(StrCat("the trainer used at most ", stamp.memory_percent,
                              "% of its memory limit during the capture"));
}

}  // namespace

absl::StatusOr<Verdict> JudgeSpace(const xplane::Space& space, const std::vector<Step>& steps,
                                   bool expects_device) {
  ASSIGN_OR_RETURN(const TraceSummary trace, xplane::Summarize(space));
  ASSIGN_OR_RETURN(Stamp stamp, ReadStamp(space));
  stamp.requested.expects_device = stamp.requested.expects_device || expects_device;
  Verdict verdict{.judgement = JudgeTrace(trace, stamp.requested)};
  // The sidecar knew more than the trace shows, for example that a program died.
  if (stamp.judged.outcome != Outcome::kUnknown && stamp.judged.outcome != Outcome::kOk) {
    verdict.judgement.outcome = stamp.judged.outcome;
    verdict.judgement.message = stamp.judged.message;
    verdict.evidence.emplace_back("this is the judgement of the sidecar that recorded it");
  }
  AddTimes(trace, stamp.requested.window, verdict.evidence);
  AddPlanes(trace, verdict.evidence);
  AddSteps(steps, verdict.evidence);
  AddCompleteSteps(stamp, verdict.evidence);
  AddJob(stamp, verdict.evidence);
  return verdict;
}

}  // namespace strobe::analysis
