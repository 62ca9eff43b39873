#include "collector/trace/report/headline.h"

#include <algorithm>
#include <cmath>

#include "collector/trace/report/robust.h"
#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::report {
namespace {

// More than this share of the lost time makes a second cause worth naming.
constexpr double kNamedCause = 0.25;

std::string CausesOf(const Late& late) {
  std::vector<std::string> names;
  for (const CauseShare& cause : late.causes) {
    if (names.empty() || (names.size() < 2 && cause.share >= kNamedCause))
      names.emplace_back(CauseName(cause.cause));
  }
  return names.empty() ? "other" : Join(names, " and ");
}

std::string HowOften(const Late& late) {
  return late.persistent ? "" : StrCat(", in ", late.late_steps, " of ", late.steps, " steps");
}

std::string OtherWorkers(std::size_t count) {
  return count == 1 ? "the other" : StrCat(count, " others");
}

std::string NamesOf(const Job& job, const std::vector<Straggler>& stragglers) {
  constexpr std::size_t kMaxNames = 3;
  if (stragglers.size() == 1) return NameOf(job.workers[stragglers[0].late.who]);
  std::vector<std::string> names;
  for (const Straggler& straggler : stragglers) {
    const JobWorker& worker = job.workers[straggler.late.who];
    if (names.size() < kMaxNames) names.push_back(worker.rank ? StrCat(*worker.rank) : worker.name);
  }
  const std::string word = job.workers[stragglers[0].late.who].rank ? "ranks " : "";
  if (stragglers.size() > kMaxNames)
    return StrCat(word, Join(names, ", "), " and ", stragglers.size() - kMaxNames, " more");
  const std::string last = names.back();
  names.pop_back();
  return StrCat(word, Join(names, ", "), " and ", last);
}

std::string OfWorkers(const Job& job, const StragglerReport& report) {
  const Straggler& first = report.stragglers.front();
  const bool one = report.stragglers.size() == 1;
  std::vector<std::string> causes;
  for (const Straggler& straggler : report.stragglers) {
    const std::string cause = CausesOf(straggler.late);
    if (std::find(causes.begin(), causes.end(), cause) == causes.end()) causes.push_back(cause);
  }
  const std::string who =
      StrCat(NamesOf(job, report.stragglers), one ? " holds up " : " hold up ",
             OtherWorkers(report.workers - report.stragglers.size()), " by ",
             TimeText(report.held_up.ns), " a step (", PercentText(report.held_up.share), ")");
  if (report.likely)
    return StrCat("likely ", who, ", ", Join(causes, ", "), ": weak evidence, ", first.late.steps,
                  " steps");
  return StrCat(who, one ? HowOften(first.late) : "", ": ", Join(causes, ", "));
}

std::string OfUndecided(const Job& job, const StragglerReport& report) {
  const Straggler& first = report.not_decided.front();
  const std::string longer = StrCat(NameOf(job.workers[first.late.who]), " takes ",
                                    TimeText(first.late.ns), " a step longer than the others",
                                    HowOften(first.late), " (", CausesOf(first.late), ")");
  switch (first.verdict) {
    case Verdict::kNobodyWaits:
      return StrCat("no straggler: ", longer, ", but nobody waits for it");
    case Verdict::kWithinClockErrors:
      return StrCat("not decidable who waits: ", longer, ", but clocks are known only within ",
                    TimeText(*first.clock_error_ns));
    case Verdict::kClockNotMeasured:
      return StrCat("not decidable who waits: ", longer, ", but clocks are not measured");
    default:
      return StrCat("not decidable who waits: ", longer,
                    ", but the traces have no collective that joins them");
  }
}

// The stage that works longest, if it takes at least a tenth longer than the median one.
std::string OfLongStage(const StragglerReport& report) {
  constexpr double kMinLonger = 0.1;
  if (report.stages.size() < 2) return "";
  std::vector<double> own;
  for (const StageTime& stage : report.stages) own.push_back(stage.own_ns);
  const auto longest =
      std::max_element(report.stages.begin(), report.stages.end(),
                       [](const auto& a, const auto& b) { return a.own_ns < b.own_ns; });
  std::erase(own, longest->own_ns);
  const double median = Median(own);
  if (median <= 0 || longest->own_ns < (1 + kMinLonger) * median) return "";
  return StrCat("pipeline stage ", longest->stage, " works ", TimeText(longest->own_ns - median),
                " a step longer than the median of the others");
}

std::string OfOneWorker(const Job& job) {
  const WorkerTime& time = job.workers.front().time;
  return time.has_device
             ? WorkerTimeText(time)
             : "one worker: its trace shows no work on a device, and there is nobody to "
               "compare it with";
}

std::string OfNobodyAlike(const StragglerReport& report) {
  if (report.stages.size() < 2) return "not decidable: no two workers recorded the same step";
  const std::string stage = OfLongStage(report);
  return StrCat("each pipeline stage has one worker, so that none can be compared",
                stage.empty() ? "" : "; ", stage);
}

}  // namespace

std::string TimeText(double ns) {
  // Conversion to an integer is defined for what fits only.
  constexpr double kFar = 9e18;
  return FormatDuration(Nanos{std::llround(std::fmin(std::fmax(ns, -kFar), kFar))});
}

std::string PercentText(double share) {
  const double percent = std::fabs(share) * 100;
  return percent < 9.95 ? StrCat(std::round(percent * 10) / 10, "%")
                        : StrCat(std::llround(std::fmin(percent, 1e9)), "%");
}

std::string Headline(const Job& job, const StragglerReport& report) {
  if (report.workers == 0) return "not decidable: there are no workers";
  if (report.workers == 1) return OfOneWorker(job);
  if (report.steps == 0) return "not decidable: no trace has steps";
  if (!report.stragglers.empty()) return OfWorkers(job, report);
  if (!report.not_decided.empty() && !report.likely) return OfUndecided(job, report);
  if (report.compared == 0) return OfNobodyAlike(report);
  if (report.smallest_ns == 0)
    return StrCat("too early to tell: only ", report.steps, " complete step",
                  report.steps == 1 ? " was" : "s were", " recorded");
  const std::string stage = OfLongStage(report);
  const double share = report.smallest_ns / std::max(report.step_ns, 1.0);
  const std::string longer =
      StrCat(TimeText(report.smallest_ns), " a step (", PercentText(share), ") longer");
  const std::string also = stage.empty() ? "" : "; " + stage;
  if (share >= 1)
    return StrCat("too early to tell: ", report.steps, " steps show only a worker that takes ",
                  longer, " than the others", also);
  return StrCat("no straggler: no worker takes more than ", longer, " than the others", also);
}

}  // namespace strobe::report
