#include "cli/report/comparison_table.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "cli/report/report_pictures.h"
#include "cli/report/straggler_table.h"
#include "collector/trace/digest/digest_json.h"
#include "collector/trace/report/headline.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

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
