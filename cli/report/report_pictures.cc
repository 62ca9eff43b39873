#include "cli/report/report_pictures.h"

#include <algorithm>
#include <cmath>

#include "cli/report/markup.h"
#include "cli/report/report_pages.h"
#include "collector/trace/report/headline.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

constexpr double kPictureWidth = 960, kLabel = 190, kValue = 80, kRow = 20, kLegend = 28;
constexpr std::size_t kMaxLabelBytes = 28, kMaxDrawnOps = 12;
constexpr double kBarHeight = 14, kStripHeight = 110;
constexpr std::size_t kHeatLevels = 5;

constexpr std::string_view kBarNames[kBarParts] = {
    "compute", "exposed communication", "exposed copies",
    "input",   "garbage collection",    "host-bound",
    "idle"};

std::string PartStyle(std::size_t part) { return StrCat("p", part); }

double Sum(const std::array<double, kBarParts>& ns) {
  double sum = 0;
  for (const double value : ns) sum += value;
  return sum;
}

void DrawLabel(Svg& svg, double y, const std::string& label, bool marked) {
  svg.Text(0, y + kBarHeight - 3, marked ? "label marked" : "label",
           StrCat(marked ? "\u25b6 " : "", Shortened(label, kMaxLabelBytes)), label);
}

// Draws the parts that occur in any of the bars.
void DrawLegend(Svg& svg, std::span<const TimeBar> bars) {
  double x = 0;
  for (std::size_t part = 0; part < kBarParts; ++part) {
    const bool any =
        std::any_of(bars.begin(), bars.end(), [&](const TimeBar& bar) { return bar.ns[part] > 0; });
    if (!any) continue;
    svg.Rect({.x = x, .y = 2, .width = 12, .height = 12}, PartStyle(part));
    svg.Text(x + 17, 12, "soft", kBarNames[part]);
    x += 36 + 6.6 * static_cast<double>(kBarNames[part].size());
  }
}

// Returns a level from 0, which is no wait, to kHeatLevels.
std::size_t HeatOf(std::int64_t waited_ns, std::int64_t longest_ns) {
  const double share = static_cast<double>(waited_ns) / static_cast<double>(longest_ns);
  if (!(share > 0.02)) return 0;
  return std::min(kHeatLevels, static_cast<std::size_t>(share * double{kHeatLevels}) + 1);
}

// Returns the waits by worker and step; -1 where the worker is not in the step.
std::vector<std::vector<std::int64_t>> WaitsOf(const report::Job& job,
                                               const report::StragglerReport& report,
                                               std::size_t steps) {
  std::vector<std::vector<std::int64_t>> waits(job.workers.size(),
                                               std::vector<std::int64_t>(steps, -1));
  for (std::size_t step = 0; step < steps; ++step) {
    const auto& workers = job.steps[step].workers;
    const auto& waited = report.arrivals.waited_ns[step];
    for (std::size_t i = 0; i < std::min(workers.size(), waited.size()); ++i)
      waits[workers[i].worker][step] = std::max<std::int64_t>(waited[i], 0);
  }
  return waits;
}

// Neighbours of one level are one rectangle.
void DrawHeatRow(Svg& svg, double y, std::span<const std::int64_t> waits, std::int64_t longest_ns) {
  const double cell = (kPictureWidth - kLabel) / static_cast<double>(waits.size());
  for (std::size_t begin = 0; begin < waits.size();) {
    std::size_t end = begin + 1;
    const std::size_t level = waits[begin] < 0 ? 0 : HeatOf(waits[begin], longest_ns);
    while (end < waits.size() && (waits[end] < 0) == (waits[begin] < 0) &&
           (waits[end] < 0 ? 0 : HeatOf(waits[end], longest_ns)) == level)
      ++end;
    if (waits[begin] >= 0)
      svg.Rect({.x = kLabel + cell * static_cast<double>(begin),
                .y = y,
                .width = cell * static_cast<double>(end - begin),
                .height = kBarHeight},
               StrCat("w", level));
    begin = end;
  }
}

void DrawHeatLegend(Svg& svg, std::int64_t longest_ns) {
  svg.Text(kLabel, 12, "soft", "waits in a step: none");
  double x = kLabel + 140;
  for (std::size_t level = 0; level <= kHeatLevels; ++level, x += 18)
    svg.Rect({.x = x, .y = 2, .width = 18, .height = 12}, StrCat("w", level));
  svg.Text(x + 6, 12, "soft", report::TimeText(static_cast<double>(longest_ns)));
}

}  // namespace

std::array<double, kBarParts> BarOf(const digest::Breakdown& time, const digest::HostTime& host,
                                    double divisor) {
  const auto part = [&](std::int64_t ns) {
    return std::max(0.0, static_cast<double>(ns) / std::max(divisor, 1.0));
  };
  std::array<double, kBarParts> bar = {part(time.compute_ns),
                                       part(time.exposed_communication_ns),
                                       part(time.exposed_copies_ns),
                                       part(host.input_stall_ns),
                                       part(host.garbage_collection_ns),
                                       part(host.host_bound_ns),
                                       0};
  bar[6] = std::max(0.0, part(time.idle_ns) - bar[3] - bar[4] - bar[5]);
  return bar;
}

std::string BarPicture(std::span<const TimeBar> bars) {
  double longest = 0;
  for (const TimeBar& bar : bars) longest = std::max(longest, Sum(bar.ns));
  if (longest <= 0) return "";
  Svg svg(kPictureWidth, kLegend + kRow * static_cast<double>(bars.size()),
          "Where the time of a step went");
  DrawLegend(svg, bars);
  const double scale = (kPictureWidth - kLabel - kValue) / longest;
  double y = kLegend;
  for (const TimeBar& bar : bars) {
    DrawLabel(svg, y, bar.label, bar.marked);
    double x = kLabel;
    for (std::size_t part = 0; part < kBarParts; ++part) {
      const double width = bar.ns[part] * scale;
      svg.Rect({.x = x, .y = y, .width = width, .height = kBarHeight}, PartStyle(part),
               StrCat(bar.label, ": ", kBarNames[part], " ", report::TimeText(bar.ns[part])));
      x += width;
    }
    svg.Text(x + 6, y + kBarHeight - 3, "soft",
             Sum(bar.ns) > 0 ? report::TimeText(Sum(bar.ns)) : std::string("not told"));
    y += kRow;
  }
  return svg.Finish();
}

std::string StepPicture(std::span<const StepMark> steps, double longest_ns) {
  if (steps.empty() || longest_ns <= 0) return "";
  steps = steps.first(std::min(steps.size(), kMaxDrawnSteps));
  Svg svg(kPictureWidth, kStripHeight + 18, "The duration of each step");
  const double slot = std::min(60.0, (kPictureWidth - kValue) / static_cast<double>(steps.size()));
  svg.Text(0, 11, "soft", report::TimeText(longest_ns));
  svg.Text(0, kStripHeight, "soft", "0");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const double height = std::max(1.0, kStripHeight * std::min(steps[i].ns / longest_ns, 1.0));
    svg.Rect({.x = kValue + slot * static_cast<double>(i),
              .y = kStripHeight - height,
              .width = std::max(slot - 1, slot * 0.7),
              .height = height},
             steps[i].marked ? "bar mark" : "bar", steps[i].title);
  }
  const auto number_of = [](const StepMark& step) {
    return step.title.substr(0, step.title.find(':'));
  };
  svg.Text(kValue, kStripHeight + 15, "soft", number_of(steps.front()));
  const double end = kValue + slot * static_cast<double>(steps.size());
  if (end > 3 * kLabel) svg.Text(end, kStripHeight + 15, "soft end", number_of(steps.back()));
  return svg.Finish();
}

std::string WaitPicture(const report::Job& job, const report::StragglerReport& report,
                        std::span<const std::uint32_t> shown) {
  const std::size_t steps =
      std::min({job.steps.size(), report.arrivals.waited_ns.size(), kMaxDrawnSteps});
  if (steps == 0 || shown.size() < 2) return "";
  const auto waits = WaitsOf(job, report, steps);
  std::int64_t longest = 0;
  for (const std::uint32_t worker : shown)
    longest = std::max(longest, *std::max_element(waits[worker].begin(), waits[worker].end()));
  if (longest <= 0) return "";
  Svg svg(kPictureWidth, kLegend + kRow * static_cast<double>(shown.size()),
          "How long each worker waited for others in each step");
  DrawHeatLegend(svg, longest);
  double y = kLegend;
  for (const std::uint32_t worker : shown) {
    DrawLabel(svg, y, job.workers[worker].name, IsLate(report, worker));
    DrawHeatRow(svg, y, waits[worker], longest);
    y += kRow;
  }
  return svg.Finish();
}

std::string OpPicture(std::span<const report::OpChange> changes) {
  std::vector<const report::OpChange*> drawn;
  double longest = 0;
  for (const report::OpChange& change : changes) {
    if (!report::IsChange(change.verdict) || drawn.size() == kMaxDrawnOps) break;
    drawn.push_back(&change);
    longest = std::max(longest, std::fabs(change.self.difference()));
  }
  if (longest <= 0) return "";
  Svg svg(kPictureWidth, kRow * static_cast<double>(drawn.size()), "Operations that changed");
  const double middle = kLabel + (kPictureWidth - kLabel) / 2;
  const double scale = ((kPictureWidth - kLabel) / 2 - kValue) / longest;
  double y = 0;
  for (const report::OpChange* change : drawn) {
    DrawLabel(svg, y, change->name, /*marked=*/false);
    const double difference = change->self.difference(), width = std::fabs(difference) * scale;
    const bool longer = difference > 0;
    svg.Rect({.x = longer ? middle : middle - width,
              .y = y,
              .width = std::max(width, 1.0),
              .height = kBarHeight},
             longer ? "more" : "less", change->name);
    const std::string text = StrCat(longer ? "+" : "", report::TimeText(difference));
    svg.Text(longer ? middle + width + 6 : middle - width - 6, y + kBarHeight - 3,
             longer ? "soft" : "soft end", text);
    y += kRow;
  }
  svg.Rect({.x = middle - 0.5, .y = 0, .width = 1, .height = y}, "axis");
  return svg.Finish();
}

}  // namespace strobe::cli
