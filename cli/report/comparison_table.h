// Shows to people what changed between two runs. Pure.
#pragma once
#include <cstddef>
#include <vector>

#include "cli/report/report_document.h"
#include "collector/trace/report/run_comparison.h"

namespace strobe::cli {

// The step and its parts, the operations that changed with at most `top` others, and what cannot be
// known.
std::vector<DocumentSection> ComparisonSections(const report::RunComparison& comparison,
                                                std::size_t top);

}  // namespace strobe::cli
