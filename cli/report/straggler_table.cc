#include "cli/report/straggler_table.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
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

}  // namespace strobe::cli
