// Shows to people which workers hold up the others of their job. Pure.
#pragma once
#include <vector>

#include "cli/report/report_document.h"
#include "collector/trace/report/stragglers.h"

namespace strobe::cli {

// A line for each worker that is late, the collectives that were waited for longest, and what
// cannot be known. Nothing for a single worker, because there is nobody to compare it with.
std::vector<DocumentSection> StragglerSections(const report::Job& job,
                                               const report::StragglerReport& report);

// What cannot be known, as a list; nothing without sentences.
std::vector<DocumentSection> UnknownSection(const std::vector<std::string>& sentences);

}  // namespace strobe::cli
