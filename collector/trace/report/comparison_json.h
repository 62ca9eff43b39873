// Writes what changed between two runs as JSON. Pure.
#pragma once
#include <nlohmann/json.hpp>

#include "collector/trace/report/run_comparison.h"

namespace strobe {

// All of the comparison, with at most `max_ops` operations. Times are in ns.
// docs/reference/tables.md describes the shape.
nlohmann::ordered_json ComparisonToJson(const report::RunComparison& comparison,
                                        std::size_t max_ops);

}  // namespace strobe
