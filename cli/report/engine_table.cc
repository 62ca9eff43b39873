#include "cli/report/engine_table.h"

#include <string>
#include <utility>

#include "collector/trace/report/headline.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

std::string EngineTime(std::int64_t ns) { return report::TimeText(static_cast<double>(ns)); }

std::string PartOf(std::int64_t ns, const report::EngineReport& engine) {
  const double all =
      static_cast<double>(engine.gaps_ns) + static_cast<double>(engine.iterations_ns);
  return all > 0 ? report::PercentText(static_cast<double>(ns) / all) : "-";
}

Row BatchRow(const report::BatchTimes& times, const report::EngineReport& engine) {
  return {std::string(NameOf(times.phase)),
          SizeText(times),
          StrCat(times.iterations),
          EngineTime(times.p50_ns),
          EngineTime(times.p99_ns),
          EngineTime(times.max_ns),
          StrCat(times.tokens),
          PartOf(times.total_ns, engine)};
}

}  // namespace

report::EngineReport EngineOf(std::span<const Digest> digests) {
  report::EngineTimes times;
  for (const Digest& digest : digests) times.Add(digest);
  return times.Finish();
}

std::vector<DocumentSection> EngineSections(const report::EngineReport& engine) {
  using enum Column;
  if (engine.empty()) return {};
  std::vector<Row> batches = {
      {"BATCH", "SIZE", "ITERATIONS", "MEDIAN", "P99", "LONGEST", "TOKENS", "SHARE"}};
  for (const report::BatchTimes& times : engine.sizes) batches.push_back(BatchRow(times, engine));
  std::vector<DocumentSection> sections;
  sections.push_back(
      {.heading = "Iterations by batch",
       .columns = {kText, kText, kNumber, kNumber, kNumber, kNumber, kNumber, kNumber},
       .rows = std::move(batches)});
  if (engine.gaps.empty()) return sections;
  std::vector<Row> gaps = {{"BETWEEN ITERATIONS", "TIMES", "TOTAL", "LONGEST", "SHARE"}};
  for (const report::GapTimes& gap : engine.gaps)
    gaps.push_back({std::string(NameOf(gap.reason)), StrCat(gap.gaps), EngineTime(gap.total_ns),
                    EngineTime(gap.max_ns), PartOf(gap.total_ns, engine)});
  sections.push_back({.heading = "Time between iterations",
                      .columns = {kText, kNumber, kNumber, kNumber, kNumber},
                      .rows = std::move(gaps)});
  return sections;
}

}  // namespace strobe
