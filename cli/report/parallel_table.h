// What to do about lost time, and in which groups of ranks it is lost, as sections of a report.
// Pure.
#pragma once
#include <vector>

#include "cli/report/report_document.h"
#include "collector/trace/report/operations.h"
#include "collector/trace/report/stragglers.h"

namespace strobe::cli {

// One line for each rule that applies. Empty if no trace tells what ran on a device.
std::vector<DocumentSection> AdviceSections(const report::Job& job);

// The kinds of groups and the stages of a pipeline. Empty for a job that has but one group of all
// ranks and no pipeline.
std::vector<DocumentSection> ParallelSections(const report::StragglerReport& report);

}  // namespace strobe::cli
