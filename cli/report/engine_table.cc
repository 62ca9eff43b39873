#include "cli/report/engine_table.h"

#include <string>
#include <utility>

#include "collector/trace/report/headline.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

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

}  // namespace

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

}  // namespace strobe::cli
