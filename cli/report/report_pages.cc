#include "cli/report/report_pages.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "cli/report/digest_table.h"
#include "cli/report/report_pictures.h"
#include "cli/report/report_sections.h"
#include "collector/trace/report/digest_operations.h"
#include "collector/trace/report/headline.h"
#include "collector/trace/report/late_workers.h"
#include "collector/trace/report/report_json.h"
#include "collector/trace/report/run_summary.h"
#include "collector/trace/report/stragglers.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

void Append(std::vector<DocumentSection> from, std::vector<DocumentSection>& to) {
  for (DocumentSection& section : from) to.push_back(std::move(section));
}

std::string WorkerBars(std::span<const digest::Digest> digests,
                       const report::StragglerReport& stragglers,
                       std::span<const std::uint32_t> shown) {
  const std::string_view loop = report::MainLoop(digests);
  std::vector<TimeBar> bars;
  for (const std::uint32_t worker : shown) {
    const WorkerSum sum = SumOf(digests[worker], loop);
    TimeBar bar{.label = digests[worker].worker, .marked = IsLate(stragglers, worker)};
    if (digests[worker].knows.device)
      bar.ns = BarOf(sum.time, sum.host, static_cast<double>(std::max<std::size_t>(sum.steps, 1)));
    bars.push_back(std::move(bar));
  }
  return BarPicture(bars);
}

// Steps in which a late worker had the most time of its own are marked.
DocumentSection StepSection(const report::Job& job, const report::StragglerReport& stragglers) {
  std::vector<StepMark> marks;
  double longest = 0;
  for (const report::JobStep& step : job.steps) {
    if (step.workers.empty()) continue;
    const auto most =
        std::max_element(step.workers.begin(), step.workers.end(),
                         [](const auto& a, const auto& b) { return a.OwnTotal() < b.OwnTotal(); });
    const double ns = report::StepDuration(step);
    longest = std::max(longest, ns);
    marks.push_back({.title = StrCat("step ", step.number, ": ", report::TimeText(ns)),
                     .ns = ns,
                     .marked = IsLate(stragglers, most->worker)});
    if (job.workers.size() > 1)
      marks.back().title +=
          StrCat(", most time of its own: ", report::NameOf(job.workers[most->worker]));
  }
  DocumentSection section{.heading = "Steps", .picture = StepPicture(marks, longest)};
  if (std::any_of(marks.begin(), marks.end(), [](const StepMark& mark) { return mark.marked; }))
    section.lines.emplace_back("Marked: a worker that is late had the most time of its own.");
  if (marks.size() > kMaxDrawnSteps)
    section.notes.push_back(StrCat(marks.size() - kMaxDrawnSteps, " more steps are not drawn"));
  return section;
}

DocumentSection PictureSection(std::string heading, std::string picture) {
  return {.heading = std::move(heading), .picture = std::move(picture)};
}

TimeBar BarOfRun(const char* label, const report::RunComparison& comparison,
                 double report::Change::*value) {
  constexpr std::pair<report::StepPart, BarPart> kDrawn[] = {
      {report::StepPart::kCompute, BarPart::kCompute},
      {report::StepPart::kExposedCommunication, BarPart::kExposedCommunication},
      {report::StepPart::kExposedCopies, BarPart::kExposedCopies},
      {report::StepPart::kInput, BarPart::kInput},
      {report::StepPart::kGarbageCollection, BarPart::kGarbageCollection},
      {report::StepPart::kHostBound, BarPart::kHostBound},
      {report::StepPart::kIdle, BarPart::kIdle}};
  TimeBar bar{.label = label};
  for (const report::PartChange& part : comparison.parts) {
    for (const auto& [from, to] : kDrawn) {
      if (part.part == from) bar.ns[static_cast<std::size_t>(to)] = part.time.*value;
    }
  }
  double& idle = bar.ns[static_cast<std::size_t>(BarPart::kIdle)];
  for (const BarPart reason : {BarPart::kInput, BarPart::kGarbageCollection, BarPart::kHostBound})
    idle = std::max(0.0, idle - bar.ns[static_cast<std::size_t>(reason)]);
  return bar;
}

std::vector<DocumentSection> StepsOfRuns(const report::RunComparison& comparison) {
  double longest = 0;
  for (const auto* run : {&comparison.before, &comparison.after}) {
    for (const double ns : run->step_ns) longest = std::max(longest, ns);
  }
  std::vector<DocumentSection> sections;
  for (const auto& [run, name] : {std::pair(&comparison.before, "Steps before"),
                                  std::pair(&comparison.after, "Steps after")}) {
    std::vector<StepMark> marks;
    for (std::size_t i = 0; i < std::min(run->step_ns.size(), kMaxDrawnSteps); ++i)
      marks.push_back({.title = StrCat("step ", i + 1, " of ", run->step_ns.size(), ": ",
                                       report::TimeText(run->step_ns[i])),
                       .ns = run->step_ns[i]});
    if (marks.empty()) continue;
    sections.push_back(PictureSection(name, StepPicture(marks, longest)));
    if (run->step_ns.size() > kMaxDrawnSteps)
      sections.back().notes.push_back(
          StrCat(run->step_ns.size() - kMaxDrawnSteps, " more steps are not drawn"));
  }
  return sections;
}

report::Job MergedJob(std::span<const digest::Digest> digests) {
  report::DigestMerger merger;
  for (const digest::Digest& digest : digests) merger.Add(digest);
  return merger.Finish(digests.size());
}

std::string TitleOf(const std::string& role) { return role.empty() ? "other workers" : role; }

}  // namespace

std::vector<std::uint32_t> ShownWorkers(const report::Job& job,
                                        const report::StragglerReport& report, std::size_t most) {
  std::vector<std::uint32_t> shown(job.workers.size());
  std::iota(shown.begin(), shown.end(), 0u);
  const auto by_rank = [&](std::uint32_t a, std::uint32_t b) {
    const report::JobWorker &one = job.workers[a], &two = job.workers[b];
    return std::tuple(!one.rank, one.rank, a) < std::tuple(!two.rank, two.rank, b);
  };
  if (shown.size() > most) {
    std::vector<double> own_ns(job.workers.size());
    for (const report::JobStep& step : job.steps) {
      for (const report::WorkerStep& worker : step.workers)
        own_ns[worker.worker] += static_cast<double>(worker.OwnTotal());
    }
    for (const std::uint32_t worker : shown) {
      if (IsLate(report, worker)) own_ns[worker] = std::numeric_limits<double>::infinity();
    }
    std::stable_sort(shown.begin(), shown.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return own_ns[a] > own_ns[b]; });
    shown.resize(most);
  }
  std::sort(shown.begin(), shown.end(), by_rank);
  return shown;
}

bool IsLate(const report::StragglerReport& report, std::uint32_t worker) {
  const auto is_it = [&](const report::Straggler& late) { return late.late.who == worker; };
  return std::any_of(report.stragglers.begin(), report.stragglers.end(), is_it) ||
         std::any_of(report.not_decided.begin(), report.not_decided.end(), is_it);
}

ReportDocument RunPage(const std::string& place, std::span<const digest::Digest> digests,
                       const report::Job& job, const report::StragglerReport& stragglers,
                       const PageOptions& options) {
  const report::EngineReport engine = EngineOf(digests);
  ReportDocument page{
      .title = place,
      .headline = report::WithEngine(engine, digests.size(), report::Headline(job, stragglers))};
  std::vector<std::uint32_t> shown =
      ShownWorkers(job, stragglers, options.all_workers ? digests.size() : kMaxDrawnWorkers);
  std::vector<DocumentSection> tables = DigestSections(digests, options.top, shown);
  if (options.pictures) {
    if (DocumentSection steps = StepSection(job, stragglers); !steps.picture.empty())
      page.sections.push_back(std::move(steps));
    if (std::string picture = WaitPicture(job, stragglers, shown); !picture.empty())
      page.sections.push_back(PictureSection("Who waited", std::move(picture)));
    tables.front().picture = WorkerBars(digests, stragglers, shown);
  }
  Append(EngineSections(engine), page.sections);
  Append(AdviceSections(job), page.sections);
  Append(StragglerSections(job, stragglers), page.sections);
  Append(ParallelSections(stragglers), page.sections);
  Append(std::move(tables), page.sections);
  return page;
}

ReportDocument ComparisonPage(const NamedRun& before, const NamedRun& after,
                              const report::RunComparison& comparison, const PageOptions& options) {
  ReportDocument page{.title = StrCat(before.location, " -> ", after.location),
                      .headline = report::Headline(comparison)};
  std::vector<DocumentSection> sections = ComparisonSections(comparison, options.top);
  if (options.pictures) {
    const TimeBar bars[] = {BarOfRun("before", comparison, &report::Change::before),
                            BarOfRun("after", comparison, &report::Change::after)};
    sections.front().picture = BarPicture(bars);
    std::vector<DocumentSection> steps = StepsOfRuns(comparison);
    sections.insert(sections.begin() + 1, std::make_move_iterator(steps.begin()),
                    std::make_move_iterator(steps.end()));
  }
  Append(std::move(sections), page.sections);
  page.sections.push_back(
      {.heading = "Who holds up the others",
       .lines = {StrCat("before: ", before.headline), StrCat("after: ", after.headline)}});
  return page;
}

DigestsByRole DivideByRole(std::vector<digest::Digest> digests) {
  DigestsByRole roles;
  for (digest::Digest& digest : digests) {
    std::vector<digest::Digest>& of_role = roles[digest.role];
    of_role.push_back(std::move(digest));
  }
  return roles;
}

ReportDocument RolesPage(const std::string& place, const DigestsByRole& roles,
                         const PageOptions& options) {
  ReportDocument page{.title = place};
  std::vector<std::string> headlines;
  for (const auto& [role, digests] : roles) {
    const report::Job job = MergedJob(digests);
    ReportDocument of_role = RunPage(place, digests, job, report::FindStragglers(job), options);
    headlines.push_back(StrCat(TitleOf(role), ": ", of_role.headline));
    page.sections.push_back({.heading = TitleOf(role), .lines = {headlines.back()}});
    for (DocumentSection& section : of_role.sections) {
      if (!section.heading.empty()) section.heading = StrCat(TitleOf(role), ": ", section.heading);
      page.sections.push_back(std::move(section));
    }
  }
  page.headline = Join(headlines, "; ");
  return page;
}

nlohmann::ordered_json RoleStragglersJson(const DigestsByRole& roles) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [role, digests] : roles) {
    const report::Job job = MergedJob(digests);
    list.push_back({{"role", role},
                    {"stragglers", report::StragglersToJson(job, report::FindStragglers(job))}});
  }
  return list;
}

}  // namespace strobe::cli
