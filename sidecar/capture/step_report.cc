#include "sidecar/capture/step_report.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "collector/trace/analysis/steps.h"
#include "collector/trace/xplane/space.h"
#include "collector/trace/xplane/summary.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/utf8.h"
#include "sidecar/capture/step_progress.h"

namespace strobe::session {
namespace {

// Bounds the memory for a trace in which everything is a step.
constexpr std::size_t kMaxStepsRead = 1 << 20;
constexpr std::size_t kMaxLoopBytes = 256;

std::int64_t LastOf(const v1::CapturePlan& plan) { return plan.first_step() + plan.steps() - 1; }

std::optional<analysis::StepRun> RunOf(const std::vector<analysis::Step>& steps,
                                       const v1::CapturePlan& plan, std::size_t processes) {
  if (plan.steps() == 0) return analysis::LongestRun(steps, analysis::MainLoop(steps));
  return analysis::LongestRun(steps, plan.step_loop(), processes, plan.first_step(), LastOf(plan));
}

std::string Numbers(std::int64_t first, std::int64_t last) {
  return first == last ? StrCat("step ", first) : StrCat("steps ", first, " to ", last);
}

std::string WhyIncomplete(const v1::Report& report) {
  const v1::CapturePlan& plan = report.plan();
  const v1::RecordedSteps& steps = report.steps();
  const std::string asked = Numbers(plan.first_step(), LastOf(plan));
  if (!report.has_steps())
    return StrCat("none of ", asked, " of ", plan.step_loop(), " was recorded completely");
  const std::string_view why = steps.first() > plan.first_step()
                                   ? "recording began after the first one"
                                   : "recording ended before the last one";
  return StrCat("only ", Numbers(steps.first(), steps.last()), " of the requested ", asked, " of ",
                plan.step_loop(), steps.first() == steps.last() ? " was" : " were",
                " recorded completely: ", why);
}

}  // namespace

absl::Status FillSteps(const Recording& recording, v1::Report& report) {
  ASSIGN_OR_RETURN(const xplane::Space space, xplane::Space::Read(recording.xspace));
  ASSIGN_OR_RETURN(std::vector<analysis::Step> steps, analysis::FindSteps(space, kMaxStepsRead));
  ASSIGN_OR_RETURN(const std::int64_t zero, xplane::TimeZero(space));
  const std::int64_t origin = zero - recording.clock_set_at_start.count();
  // PyTorch ends annotations that are open when it stops.
  if (report.stopped_ns() != 0) {
    std::erase_if(steps, [&](const analysis::Step& step) {
      return step.end_ps / 1000 > report.stopped_ns() - origin;
    });
  }
  v1::CapturePlan& plan = *report.mutable_plan();
  for (analysis::Step& step : steps) {
    if (plan.steps() > 0 && IsLoop(step.name, plan.step_loop())) step.name = plan.step_loop();
  }
  const std::optional<analysis::StepRun> run = RunOf(steps, plan, recording.stepping_processes);
  if (!run) return absl::OkStatus();
  v1::RecordedSteps& found = *report.mutable_steps();
  found.set_loop(CutUtf8(run->name, kMaxLoopBytes));
  found.set_first(run->first);
  found.set_last(run->last);
  found.set_began_ns(origin + run->begin_ps / 1000);
  found.set_ended_ns(origin + (run->end_ps + 999) / 1000);
  if (plan.steps() == 0) return absl::OkStatus();
  plan.set_instant_ns(found.began_ns());
  plan.set_duration_ns(found.ended_ns() - found.began_ns());
  if (recording.ended_early && run->first == plan.first_step())
    plan.set_steps(static_cast<std::uint32_t>(run->last - run->first + 1));
  return absl::OkStatus();
}

analysis::Judgement JudgeSteps(const v1::Report& report, analysis::Judgement judged) {
  const v1::CapturePlan& plan = report.plan();
  const v1::RecordedSteps& steps = report.steps();
  judged.covers_window =
      report.has_steps() && steps.first() == plan.first_step() && steps.last() == LastOf(plan);
  const int badness = Describe(judged.outcome).badness;
  if (judged.covers_window || badness > Describe(Outcome::kLateStart).badness) return judged;
  judged.outcome = Outcome::kLateStart;
  judged.message = WhyIncomplete(report);
  return judged;
}

}  // namespace strobe::session
