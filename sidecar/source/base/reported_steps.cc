#include "sidecar/source/base/reported_steps.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "agent/wire/step_marks.h"
#include "collector/trace/xplane/trace_me_text.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "sidecar/capture/step_progress.h"

namespace strobe::source {
namespace {

static_assert(session::kReportedLoopBytes == wire::kLoopNameBytes);

// Beyond that, a time is forged: the machine has not run for so long.
constexpr std::uint64_t kMaxMonotonicNs = std::uint64_t{1} << 60;
// A longer step is forged too. Sums of the steps that are compared do not overflow.
constexpr std::uint64_t kMaxReportedStepNs = 24 * 3'600'000'000'000;
constexpr std::int64_t kMaxStepNumber = std::int64_t{1} << 60;

std::string NameOf(const wire::StepLoop& loop) {
  char name[wire::kLoopNameBytes];
  std::memcpy(name, loop.name, sizeof name);
  return CutUtf8({name, strnlen(name, sizeof name)}, sizeof name);
}

bool IsPlausible(const wire::ReportedStep& step) {
  return step.number >= 0 && step.number <= kMaxStepNumber && step.began_ns <= kMaxMonotonicNs &&
         step.ended_ns <= kMaxMonotonicNs;
}

// The time per step from one step to a later one.
std::int64_t TimePerStep(const wire::ReportedStep& from, const wire::ReportedStep& to) {
  return static_cast<std::int64_t>(to.began_ns - from.began_ns) / (to.number - from.number);
}

// Sets the times per step. Numbers that go back, as when a loop begins again, do not count.
void SetPeriods(const std::vector<wire::ReportedStep>& steps, v1::StepPace& pace) {
  // One step may be short or long in any program, so the extremes are those of several.
  constexpr std::size_t kInARow = 4;
  std::vector<std::int64_t> periods;
  std::size_t first = 0;  // Since then, no number went back.
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (steps[i].number <= steps[i - 1].number || steps[i].began_ns < steps[i - 1].began_ns) {
      first = i;
      continue;
    }
    periods.push_back(TimePerStep(steps[i - 1], steps[i]));
    if (i - first < kInARow) continue;
    const std::int64_t each = TimePerStep(steps[i - kInARow], steps[i]);
    if (pace.slowest_ns() == 0 || each < pace.fastest_ns()) pace.set_fastest_ns(each);
    pace.set_slowest_ns(std::max(pace.slowest_ns(), each));
  }
  if (periods.empty()) return;
  const auto middle = periods.begin() + static_cast<std::ptrdiff_t>(periods.size() / 2);
  std::nth_element(periods.begin(), middle, periods.end());
  pace.set_period_ns(*middle);
}

}  // namespace

v1::StepPace ReportedByAgent(std::string process) {
  v1::StepPace who;
  who.set_process(std::move(process));
  who.set_source(v1::SOURCE_AGENT);
  return who;
}

void AddReportedSteps(const wire::StepLoops& loops, const v1::StepPace& who,
                      std::int64_t wall_minus_monotonic_ns, std::vector<v1::StepPace>& told) {
  for (const wire::StepLoop& loop : loops) {
    std::vector<wire::ReportedStep> steps;
    wire::ForEachStep(loop, [&](const wire::ReportedStep& step) {
      if (IsPlausible(step)) steps.push_back(step);
    });
    if (steps.empty() || told.size() >= kMaxReportedLoops) continue;
    const wire::ReportedStep& last = steps.back();
    const auto wall = [&](std::uint64_t ns) {
      return static_cast<std::int64_t>(ns) + wall_minus_monotonic_ns;
    };
    v1::StepPace& pace = told.emplace_back(who);
    pace.set_loop(NameOf(loop));
    pace.set_number(last.number);
    pace.set_began_ns(wall(last.began_ns));
    if (last.ended_ns != 0) pace.set_ended_ns(wall(last.ended_ns));
    SetPeriods(steps, pace);
  }
}

void AddEndedSteps(const wire::StepLoop& loop, std::string_view program,
                   std::uint64_t& told_until_ns, session::JobSigns& signs) {
  const auto moment = [](std::uint64_t ns) {
    return MonoTime{Nanos{static_cast<std::int64_t>(ns)}};
  };
  const std::uint64_t known_until_ns = told_until_ns;
  std::size_t ended = 0;
  wire::ForEachStep(loop, [&](const wire::ReportedStep& step) {
    if (!IsPlausible(step) || step.ended_ns < step.began_ns ||
        step.ended_ns - step.began_ns > kMaxReportedStepNs || step.ended_ns <= known_until_ns)
      return;
    ++ended;
    told_until_ns = std::max(told_until_ns, step.ended_ns);
    signs.steps.push_back(
        {StrCat(program, " ", NameOf(loop)), moment(step.began_ns), moment(step.ended_ns)});
  });
  // The step that runs has a mark too. If all others are new, older ones may have been replaced.
  if (known_until_ns != 0 && ended + 1 >= wire::kStepMarks) signs.steps_missing = true;
}

bool TellsSteps(const wire::StepLoops& loops, std::string_view loop) {
  std::vector<v1::StepPace> told;
  AddReportedSteps(loops, {}, 0, told);
  return std::any_of(told.begin(), told.end(),
                     [&](const v1::StepPace& pace) { return pace.loop() == loop; });
}

std::optional<AnnotatedStep> StepOf(std::string_view annotation) {
  constexpr std::string_view kKey = "step_num";
  if (!Contains(annotation, kKey)) return std::nullopt;
  const xplane::TraceMeText parsed = xplane::ParseTraceMe(annotation);
  const auto found = std::find_if(parsed.args.begin(), parsed.args.end(),
                                  [&](const auto& arg) { return arg.first == kKey; });
  if (found == parsed.args.end()) return std::nullopt;
  std::int64_t number = 0;
  const std::string_view text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return AnnotatedStep{parsed.name, whole ? std::optional(number) : std::nullopt};
}

}  // namespace strobe::source
