#include "sidecar/source/base/reported_steps.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "agent/wire/step_marks.h"
#include "collector/trace/xplane/trace_me_text.h"
#include "common/base/strings.h"
#include "common/text/utf8.h"
#include "sidecar/capture/step_progress.h"

namespace strobe {
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

// The median time per step. Numbers that go back, as when a loop begins again, do not count.
std::int64_t PeriodOf(const std::vector<wire::ReportedStep>& steps) {
  std::vector<std::int64_t> periods;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const std::int64_t numbers = steps[i].number - steps[i - 1].number;
    if (numbers <= 0 || steps[i].began_ns < steps[i - 1].began_ns) continue;
    periods.push_back(static_cast<std::int64_t>(steps[i].began_ns - steps[i - 1].began_ns) /
                      numbers);
  }
  if (periods.empty()) return 0;
  const auto middle = periods.begin() + static_cast<std::ptrdiff_t>(periods.size() / 2);
  std::nth_element(periods.begin(), middle, periods.end());
  return *middle;
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
    pace.set_period_ns(PeriodOf(steps));
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

}  // namespace strobe
