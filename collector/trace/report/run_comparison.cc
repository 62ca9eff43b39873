#include "collector/trace/report/run_comparison.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "collector/trace/report/headline.h"
#include "common/base/strings.h"

namespace strobe::report {
namespace {

// The probabilities that chance alone changes the step, and any of its parts.
constexpr double kStepFalseAlarm = 0.005, kPartsFalseAlarm = 0.01;
// "No change" is decided only if a change by this share of the step, or of a part, would have been
// noticed.
constexpr double kTooWide = 0.25, kTooWidePart = 0.5;
// A part that changed by more than this share of the whole change is worth naming.
constexpr double kNamedPart = 0.25;

ComparedRun FactsOf(const RunSummary& run) {
  return {.workers = run.workers.size(),
          .steps = run.step_ns.size(),
          .loop = run.loop,
          .step_ns = run.step_ns};
}

class RunComparer {
 public:
  RunComparer(const RunSummary& before, const RunSummary& after) : before_(before), after_(after) {}

  RunComparison Compare() {
    result_.before = FactsOf(before_);
    result_.after = FactsOf(after_);
    result_.of_steps = !before_.step_ns.empty() && !after_.step_ns.empty();
    alike_ = before_.device == after_.device && before_.host_device == after_.host_device;
    if (result_.of_steps) CompareSteps();
    CompareParts();
    // Comparing operations also needs the noise of the steps, which few steps do not show.
    const bool decidable = result_.of_steps && alike_ &&
                           std::min(result_.before.steps, result_.after.steps) >= kMinComparedSteps;
    result_.ops = CompareOps(before_, after_, Whole(), decidable);
    TellDifferences();
    return std::move(result_);
  }

 private:
  double Whole() const { return result_.of_steps ? result_.step.before : 1e9; }

  void CompareSteps() {
    const double step_ns = TypicalOf(before_.step_ns).mean;
    result_.step = CompareSeries(
        before_.step_ns, after_.step_ns,
        {.margin = kMinStepShare * step_ns, .too_wide = kTooWide, .false_alarm = kStepFalseAlarm});
  }

  void CompareParts() {
    const ChangeTest test{.margin = kMinStepShare * Whole(),
                          .too_wide = kTooWidePart,
                          .decisive = 2 * kMinStepShare * Whole(),
                          .false_alarm = kPartsFalseAlarm / double{kStepParts}};
    for (std::size_t i = 0; i < kStepParts; ++i) {
      PartChange change{.part = static_cast<StepPart>(i)};
      if (before_.parts_known[i] && after_.parts_known[i]) {
        if (result_.of_steps)
          change.time = CompareSeries(before_.parts_ns[i], after_.parts_ns[i], test);
        else
          change.time = {.before = before_.parts_in_second[i], .after = after_.parts_in_second[i]};
        if (!alike_) change.time.verdict = ChangeVerdict::kNotDecidable;
        result_.parts.push_back(change);
      }
    }
  }

  template <typename... Words>
  void Tell(const Words&... words) {
    result_.unknown.push_back(StrCat(words...));
  }

  void TellDifferences() {
    for (const auto& [run, name] : {std::pair(&before_, "before"), std::pair(&after_, "after")}) {
      if (run->workers.empty())
        Tell("the run ", name, " has no workers");
      else if (run->step_ns.empty())
        Tell("the run ", name,
             " has no steps: the shares of the recordings are shown, and whether "
             "they changed by chance is not decidable");
      else if (run->step_ns.size() < kMinComparedSteps)
        Tell("the run ", name, " has ", run->step_ns.size(), " complete steps, and ",
             kMinComparedSteps, " are needed to tell a change from chance");
      if (run->ops_left_out > 0)
        Tell("the run ", name, " has more operations than can be compared");
    }
    if (result_.of_steps && result_.before.loop != result_.after.loop)
      Tell("the steps have different names: ", result_.before.loop, " before and ",
           result_.after.loop, " after");
    if (before_.workers.size() != after_.workers.size())
      Tell("the runs have ", before_.workers.size(), " and ", after_.workers.size(),
           " workers: a change can be that of the job's size");
    if (!alike_)
      Tell(
          "the runs show different kinds of work, of devices or of the host: parts and operations "
          "are not comparable");
    for (std::size_t i = 0; i < kStepParts; ++i) {
      if (before_.parts_known[i] != after_.parts_known[i])
        Tell(PartName(static_cast<StepPart>(i)), " is shown by the run ",
             before_.parts_known[i] ? "before" : "after", " only");
    }
  }

  const RunSummary& before_;
  const RunSummary& after_;
  bool alike_ = true;
  RunComparison result_{};
};

// The parts that changed with the step, the largest first. Idle time is named only if its parts do
// not explain it.
std::string PartsThatChanged(const RunComparison& comparison) {
  const double whole = comparison.step.difference();
  std::vector<PartChange> changed;
  double explained = 0;
  const auto is_named = [&](const PartChange& part) {
    return part.time.verdict == comparison.step.verdict &&
           part.time.difference() / whole >= kNamedPart;
  };
  for (const PartChange& part : comparison.parts) {
    if (part.part == StepPart::kIdle || part.part == StepPart::kCommunication || !is_named(part))
      continue;
    changed.push_back(part);
    if (part.part > StepPart::kIdle) explained += part.time.difference() / whole;
  }
  for (const PartChange& part : comparison.parts) {
    if (part.part == StepPart::kIdle && is_named(part) &&
        part.time.difference() / whole - explained >= kNamedPart)
      changed.push_back(part);
  }
  std::stable_sort(changed.begin(), changed.end(), [](const PartChange& a, const PartChange& b) {
    return std::fabs(a.time.difference()) > std::fabs(b.time.difference());
  });
  std::vector<std::string> names;
  for (const PartChange& part : changed) names.emplace_back(PartName(part.part));
  return names.empty() ? "" : StrCat(": ", Join(names, ", "));
}

}  // namespace

RunComparison CompareRuns(const RunSummary& before, const RunSummary& after) {
  return RunComparer(before, after).Compare();
}

std::string Headline(const RunComparison& comparison) {
  if (!comparison.of_steps) return "not decidable whether steps changed: a run has no steps";
  const Change& step = comparison.step;
  const double whole = std::max(step.before, 1.0);
  if (step.verdict == ChangeVerdict::kNoChange)
    return StrCat("no change of steps: more than ", TimeText(step.smallest), " a step (",
                  PercentText(step.smallest / whole), ") would have been told");
  if (step.verdict == ChangeVerdict::kNotDecidable &&
      std::min(step.before_n, step.after_n) < kMinComparedSteps)
    return StrCat("not decidable whether steps changed: the runs have ", step.before_n, " and ",
                  step.after_n, " steps, and ", kMinComparedSteps, " are needed");
  if (step.verdict == ChangeVerdict::kNotDecidable)
    return StrCat("not decidable whether steps changed: they vary too much, so that less than ",
                  TimeText(step.smallest), " a step could not be told");
  return StrCat("steps take ", TimeText(std::fabs(step.difference())),
                step.verdict == ChangeVerdict::kLonger ? " longer (" : " less (",
                PercentText(step.difference() / whole), "), ", TimeText(step.before), " -> ",
                TimeText(step.after), PartsThatChanged(comparison));
}

}  // namespace strobe::report
