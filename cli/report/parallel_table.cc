#include "cli/report/parallel_table.h"

#include <string>
#include <utility>
#include <vector>

#include "collector/trace/report/advice.h"
#include "collector/trace/report/headline.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

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

}  // namespace

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

}  // namespace strobe::cli
