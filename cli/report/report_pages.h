// What the report of a run says, and that of two runs. Pure.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "cli/report/report_document.h"
#include "collector/trace/digest/digest.h"
#include "collector/trace/report/run_comparison.h"
#include "collector/trace/report/stragglers.h"

namespace strobe {

struct PageOptions {
  std::size_t top = 10;      // Operations.
  bool all_workers = false;  // Otherwise those of ShownWorkers.
  bool pictures = false;
};

// `job` is merged from `digests`, in their order.
ReportDocument RunPage(const std::string& place, std::span<const Digest> digests,
                       const report::Job& job, const report::StragglerReport& stragglers,
                       const PageOptions& options);

struct NamedRun {
  std::string location{};
  std::string headline{};  // Which of its workers hold up the others.
};
ReportDocument ComparisonPage(const NamedRun& before, const NamedRun& after,
                              const report::RunComparison& comparison, const PageOptions& options);

}  // namespace strobe
