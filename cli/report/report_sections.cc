#include "cli/report/report_sections.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/report/report_pictures.h"
#include "collector/trace/digest/digest_json.h"
#include "collector/trace/report/advice.h"
#include "collector/trace/report/headline.h"
#include "common/base/duration.h"
#include "common/base/enum_names.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

constexpr std::size_t kMaxCalls = 5;

std::string Time(double ns) { return FormatDuration(Nanos{std::llround(ns)}); }

std::string TimeWithError(double ns, double error_ns) {
  return StrCat(Time(ns), " +-", Time(error_ns));
}

std::string CausesOf(const report::Late& late) {
  std::vector<std::string> names;
  for (const report::CauseShare& cause : late.causes)
    names.push_back(absl::StrFormat("%s %.0f%%", std::string(report::CauseName(cause.cause)),
                                    100 * cause.share));
  return names.empty() ? "-" : Join(names, ", ");
}

std::string_view NameOf(report::Verdict verdict) {
  static constexpr EnumNames<report::Verdict, 5> kNames(
      {{report::Verdict::kHoldsUp, "holds up others"},
       {report::Verdict::kNobodyWaits, "nobody waits for it"},
       {report::Verdict::kWithinClockErrors, "not decidable: clocks differ by more"},
       {report::Verdict::kClockNotMeasured, "not decidable: clocks are not measured"},
       {report::Verdict::kNoCalls, "not decidable: the traces have no collectives"}});
  return kNames.Of(verdict);
}

std::string VerdictText(const report::StragglerReport& report, const report::Straggler& straggler) {
  if (straggler.verdict != report::Verdict::kHoldsUp) return std::string(NameOf(straggler.verdict));
  const bool by_durations = straggler.evidence == report::Evidence::kDurations;
  return StrCat(report.likely ? "likely " : "", NameOf(straggler.verdict),
                by_durations ? ", by durations of calls" : "");
}

Row LateRow(std::string who, const report::Late& late, const std::optional<report::HeldUp>& held_up,
            std::string_view verdict) {
  return {std::move(who),
          TimeWithError(late.ns, late.error_ns),
          StrCat(late.late_steps, " of ", late.steps),
          held_up ? TimeWithError(held_up->ns, held_up->error_ns) : "-",
          held_up ? absl::StrFormat("%.1f%%", 100 * held_up->share) : "-",
          CausesOf(late),
          std::string(verdict)};
}

std::vector<Row> LateRows(const report::Job& job, const report::StragglerReport& report) {
  std::vector<Row> rows = {
      {"LATE", "LONGER A STEP", "IN STEPS", "HOLDS UP A STEP", "SHARE", "CAUSES", "VERDICT"}};
  for (const auto* stragglers : {&report.stragglers, &report.not_decided}) {
    for (const report::Straggler& straggler : *stragglers)
      rows.push_back(LateRow(report::NameOf(job.workers[straggler.late.who]), straggler.late,
                             straggler.held_up, VerdictText(report, straggler)));
  }
  return rows;
}

// Time that devices lost, summed over the members of all calls.
std::vector<Row> CallRows(const report::Job& job, const report::Arrivals& arrivals) {
  std::vector<Row> rows = {{"WAITED FOR", "CALLS", "WAITED IN ALL", "MOST OFTEN LAST"}};
  for (const report::CallArrivals& calls : arrivals.calls) {
    if (rows.size() > kMaxCalls || calls.waited_ns == 0) break;
    rows.push_back(
        {job.types[calls.type].name, StrCat(calls.calls), FormatDuration(Nanos{calls.waited_ns}),
         calls.times_last == 0 ? "not decidable: clocks differ by more"
                               : StrCat(report::NameOf(job.workers[calls.most_often_last]), ", ",
                                        calls.times_last, " of ", calls.calls)});
  }
  return rows;
}

std::string EngineTime(std::int64_t ns) { return report::TimeText(static_cast<double>(ns)); }

Row BatchRow(const report::BatchTimes& times) {
  return {std::string(report::NameOf(times.phase)),
          report::SizeText(times),
          StrCat(times.iterations),
          EngineTime(times.p50_ns),
          EngineTime(times.p99_ns),
          EngineTime(times.max_ns),
          StrCat(times.tokens),
          report::PercentText(times.share)};
}

std::string AdvicePlace(const report::Job& job, const report::Advice& advice) {
  std::vector<std::string> words;
  if (job.workers.size() > 1) words.push_back(report::NameOf(job.workers[advice.worker]));
  if (advice.step) words.push_back(StrCat("step ", *advice.step));
  return words.empty() ? "" : StrCat(" (most in ", Join(words, ", "), ")");
}

Row GroupRow(const report::GroupTime& group) {
  return {StrCat(report::GroupKindName(group.kind), group.named ? "" : ", by its calls"),
          StrCat(group.communicators), StrCat(group.calls), report::TimeText(group.in_calls_ns),
          group.waited_ns ? report::TimeText(*group.waited_ns) : "-"};
}

bool IsWorthTelling(const std::vector<report::GroupTime>& groups) {
  return groups.size() > 1 ||
         (groups.size() == 1 && groups[0].named && groups[0].kind != report::GroupKind::kAll);
}

// More operations that changed than this are not listed.
constexpr std::size_t kMaxChangedOps = 100;

std::string Signed(double ns) { return StrCat(ns > 0 ? "+" : "", report::TimeText(ns)); }

std::string ShareOf(double part, double whole) {
  return whole > 0 ? absl::StrFormat("%+.1f%%", 100 * part / whole) : std::string("-");
}

std::string ErrorOf(const report::Change& change) {
  return change.smallest > 0 ? StrCat("+-", report::TimeText(change.error)) : std::string("-");
}

Row TimesOf(const report::Change& change, double whole) {
  return {report::TimeText(change.before), report::TimeText(change.after),
          Signed(change.difference()), ShareOf(change.difference(), whole), ErrorOf(change)};
}

// A verdict that there are too few steps to decide also tells the numbers of steps.
std::string ChangeVerdictText(const report::Change& change) {
  std::string verdict(report::VerdictName(change.verdict));
  if (change.verdict == report::ChangeVerdict::kNotDecidable && change.smallest <= 0)
    verdict += StrCat(" (n = ", change.before_n, ", ", change.after_n, ")");
  return verdict;
}

Row PartRow(std::string name, const report::Change& change, double whole) {
  Row row = {std::move(name)};
  for (std::string& cell : TimesOf(change, whole)) row.push_back(std::move(cell));
  row.push_back(ChangeVerdictText(change));
  return row;
}

DocumentSection PartSection(const report::RunComparison& comparison, double whole) {
  using enum Column;
  const auto run_line = [](const char* when, const report::ComparedRun& run) {
    return StrCat(when, run.workers, run.workers == 1 ? " worker, " : " workers, ",
                  run.steps == 0 ? "no steps" : StrCat(run.steps, " steps of ", run.loop));
  };
  const char* unit = comparison.of_steps ? "OF A STEP" : "OF A SECOND";
  DocumentSection section{
      .heading = comparison.of_steps ? "The typical step" : "A second of recording",
      .lines = {run_line("before: ", comparison.before), run_line("after: ", comparison.after)},
      .columns = {kText, kNumber, kNumber, kNumber, kNumber, kNumber, kText},
      .rows = {{comparison.of_steps ? "A STEP" : "A SECOND", "BEFORE", "AFTER", "CHANGE", unit,
                "ERROR", "VERDICT"}}};
  if (comparison.of_steps) section.rows.push_back(PartRow("all", comparison.step, whole));
  for (const report::PartChange& part : comparison.parts) {
    std::string name(report::PartName(part.part));
    if (part.part > report::StepPart::kIdle && part.part < report::StepPart::kCommunication)
      name = StrCat("idle: ", name);
    if (part.part == report::StepPart::kCommunication) name += ", hidden or not";
    section.rows.push_back(PartRow(std::move(name), part.time, whole));
  }
  return section;
}

Row OpRow(const report::OpChange& op, double whole) {
  Row row = TimesOf(op.self, whole);
  row.push_back(absl::StrFormat("%.3g -> %.3g", op.before_calls, op.after_calls));
  row.emplace_back(report::VerdictName(op.verdict));
  row.emplace_back(digest::NameOf(op.kind));
  row.push_back(op.name);
  return row;
}

DocumentSection OpSection(const report::RunComparison& comparison, double whole, std::size_t top) {
  using enum Column;
  DocumentSection section{
      .heading = "Operations, by their self time",
      .columns = {kNumber, kNumber, kNumber, kNumber, kNumber, kNumber, kText, kText, kName},
      .rows = {{"BEFORE", "AFTER", "CHANGE", comparison.of_steps ? "OF A STEP" : "OF A SECOND",
                "ERROR", "CALLS", "VERDICT", "KIND", "OPERATION"}},
      .picture = OpPicture(comparison.ops)};
  std::size_t changed = 0, others = 0;
  for (const report::OpChange& op : comparison.ops) {
    const bool is_change = report::IsChange(op.verdict);
    std::size_t& listed = is_change ? changed : others;
    if (listed++ < (is_change ? kMaxChangedOps : top)) section.rows.push_back(OpRow(op, whole));
  }
  if (changed > kMaxChangedOps)
    section.notes.push_back(StrCat(changed - kMaxChangedOps, " more operations changed"));
  if (others > top) section.notes.push_back(StrCat(others - top, " more did not, or by less"));
  return section;
}

}  // namespace

std::vector<DocumentSection> UnknownSection(const std::vector<std::string>& sentences) {
  if (sentences.empty()) return {};
  return {{.heading = "Not known", .lines = sentences, .list = true}};
}

std::vector<DocumentSection> StragglerSections(const report::Job& job,
                                               const report::StragglerReport& report) {
  using enum Column;
  if (report.workers < 2) return {};
  std::vector<DocumentSection> sections;
  if (std::vector<Row> rows = LateRows(job, report); rows.size() > 1) {
    const std::size_t told = report.stragglers.size() + report.not_decided.size();
    sections.push_back({.heading = "Workers that take longer",
                        .columns = {kText, kNumber, kNumber, kNumber, kNumber, kText, kText},
                        .rows = std::move(rows)});
    if (report.late_count > told)
      sections.back().notes.push_back(StrCat(report.late_count - told, " more workers are late"));
  }
  if (std::vector<Row> rows = CallRows(job, report.arrivals); rows.size() > 1)
    sections.push_back({.heading = "Collectives that were waited for",
                        .columns = {kName, kNumber, kNumber, kText},
                        .rows = std::move(rows)});
  for (DocumentSection& section : UnknownSection(report.unknown))
    sections.push_back(std::move(section));
  return sections;
}

report::EngineReport EngineOf(std::span<const digest::Digest> digests) {
  report::EngineTimes times;
  for (const digest::Digest& digest : digests) times.Add(digest);
  return times.Finish();
}

std::vector<DocumentSection> EngineSections(const report::EngineReport& engine) {
  using enum Column;
  if (engine.empty()) return {};
  std::vector<Row> batches = {
      {"BATCH", "SIZE", "ITERATIONS", "MEDIAN", "P99", "LONGEST", "TOKENS", "SHARE"}};
  for (const report::BatchTimes& times : engine.sizes) batches.push_back(BatchRow(times));
  std::vector<DocumentSection> sections;
  sections.push_back(
      {.heading = "Iterations by batch",
       .columns = {kText, kText, kNumber, kNumber, kNumber, kNumber, kNumber, kNumber},
       .rows = std::move(batches)});
  if (engine.gaps.empty()) return sections;
  std::vector<Row> gaps = {{"BETWEEN ITERATIONS", "TIMES", "TOTAL", "LONGEST", "SHARE"}};
  for (const report::GapTimes& gap : engine.gaps)
    gaps.push_back({std::string(report::NameOf(gap.reason)), StrCat(gap.gaps),
                    EngineTime(gap.total_ns), EngineTime(gap.max_ns),
                    report::PercentText(gap.share)});
  sections.push_back({.heading = "Time between iterations",
                      .columns = {kText, kNumber, kNumber, kNumber, kNumber},
                      .rows = std::move(gaps)});
  return sections;
}

std::vector<DocumentSection> AdviceSections(const report::Job& job) {
  DocumentSection section{.heading = "What to do", .list = true};
  for (const report::Advice& advice : report::AdviceFor(job)) {
    const report::AdviceWords& words = report::WordsOf(advice.rule);
    section.lines.push_back(StrCat(report::PercentText(advice.share), " ", advice.what,
                                   AdvicePlace(job, advice), ": ", words.next,
                                   words.link.empty() ? "" : " ", words.link));
  }
  if (section.lines.empty()) return {};
  return {std::move(section)};
}

std::vector<DocumentSection> ParallelSections(const report::StragglerReport& report) {
  using enum Column;
  std::vector<DocumentSection> sections;
  if (IsWorthTelling(report.groups)) {
    std::vector<Row> rows = {
        {"GROUPS", "COMMUNICATORS", "CALLS", "IN CALLS A STEP", "WAITED A STEP"}};
    for (const report::GroupTime& group : report.groups) rows.push_back(GroupRow(group));
    sections.push_back({.heading = "Time in groups of ranks",
                        .columns = {kText, kNumber, kNumber, kNumber, kNumber},
                        .rows = std::move(rows)});
  }
  if (report.stages.size() > 1) {
    std::vector<Row> rows = {{"STAGE", "WORKERS", "OWN TIME A STEP"}};
    for (const report::StageTime& stage : report.stages)
      rows.push_back({StrCat(stage.stage), StrCat(stage.workers), report::TimeText(stage.own_ns)});
    sections.push_back({.heading = "Stages of the pipeline",
                        .columns = {kText, kNumber, kNumber},
                        .rows = std::move(rows)});
  }
  return sections;
}

std::vector<DocumentSection> ComparisonSections(const report::RunComparison& comparison,
                                                std::size_t top) {
  const double whole = comparison.of_steps ? comparison.step.before : 1e9;
  std::vector<DocumentSection> sections = {PartSection(comparison, whole)};
  if (DocumentSection ops = OpSection(comparison, whole, top); ops.rows.size() > 1)
    sections.push_back(std::move(ops));
  for (DocumentSection& section : UnknownSection(comparison.unknown))
    sections.push_back(std::move(section));
  return sections;
}

}  // namespace strobe::cli
