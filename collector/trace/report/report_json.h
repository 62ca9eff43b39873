// Writes as JSON which workers hold up the others, and what changed between two runs. Pure.
#pragma once
#include <nlohmann/json.hpp>

#include "collector/trace/report/run_comparison.h"
#include "collector/trace/report/stragglers.h"

namespace strobe::report {

// All of the report. Times are in ns; those with an error have its half-width at 95 % beside them.
// What is not known is null.
nlohmann::ordered_json StragglersToJson(const Job& job, const StragglerReport& report);

// All of the comparison, with at most `max_ops` operations. Times are in ns.
// docs/reference/tables.md describes the shape.
nlohmann::ordered_json ComparisonToJson(const RunComparison& comparison, std::size_t max_ops);

}  // namespace strobe::report
