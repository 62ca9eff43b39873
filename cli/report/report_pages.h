// What the report of a run says, and that of two runs. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/report/report_document.h"
#include "collector/trace/digest/digest.h"
#include "collector/trace/report/run_comparison.h"
#include "collector/trace/report/stragglers.h"

namespace strobe::cli {

// Which workers a report of a large job shows: at most `most`, by their places in the job: those
// that are late, and of the others those with the most time of their own. They are ordered by rank;
// those without one come last.
std::vector<std::uint32_t> ShownWorkers(const report::Job& job,
                                        const report::StragglerReport& report, std::size_t most);

// Whether the worker takes longer than the others, even if nobody waits for it.
bool IsLate(const report::StragglerReport& report, std::uint32_t worker);

struct PageOptions {
  std::size_t top = 10;      // Operations.
  bool all_workers = false;  // Otherwise those of ShownWorkers.
  bool pictures = false;
};

// `job` is merged from `digests`, in their order.
ReportDocument RunPage(const std::string& place, std::span<const digest::Digest> digests,
                       const report::Job& job, const report::StragglerReport& stragglers,
                       const PageOptions& options);

struct NamedRun {
  std::string location{};
  std::string headline{};  // Which of its workers hold up the others.
};
ReportDocument ComparisonPage(const NamedRun& before, const NamedRun& after,
                              const report::RunComparison& comparison, const PageOptions& options);

// In the order of the roles; within a role in that of the digests.
using DigestsByRole = std::map<std::string, std::vector<digest::Digest>>;
DigestsByRole DivideByRole(std::vector<digest::Digest> digests);

// The page of RunPage for each role, below each other.
ReportDocument RolesPage(const std::string& place, const DigestsByRole& roles,
                         const PageOptions& options);

// A list with the stragglers of each role, as in report.json.
nlohmann::ordered_json RoleStragglersJson(const DigestsByRole& roles);

}  // namespace strobe::cli
