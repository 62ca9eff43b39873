// The sections of a report: which workers hold up the others of their job, where time is lost and
// what to do about it, what the iterations of inference servers took, and what changed between two
// runs. Pure.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "cli/report/report_document.h"
#include "collector/trace/digest/digest.h"
#include "collector/trace/report/engine_times.h"
#include "collector/trace/report/operations.h"
#include "collector/trace/report/run_comparison.h"
#include "collector/trace/report/stragglers.h"

namespace strobe::cli {

// A line for each worker that is late, the collectives that were waited for longest, and what
// cannot be known. Nothing for a single worker, because there is nobody to compare it with.
std::vector<DocumentSection> StragglerSections(const report::Job& job,
                                               const report::StragglerReport& report);

// What cannot be known, as a list; nothing without sentences.
std::vector<DocumentSection> UnknownSection(const std::vector<std::string>& sentences);

report::EngineReport EngineOf(std::span<const digest::Digest> digests);

// Iterations by the size of their batches, and the time between them by reason. Empty for workers
// that are no servers.
std::vector<DocumentSection> EngineSections(const report::EngineReport& engine);

// One line for each rule that applies. Empty if no trace tells what ran on a device.
std::vector<DocumentSection> AdviceSections(const report::Job& job);

// The kinds of groups and the stages of a pipeline. Empty for a job that has but one group of all
// ranks and no pipeline.
std::vector<DocumentSection> ParallelSections(const report::StragglerReport& report);

// The step and its parts, the operations that changed with at most `top` others, and what cannot be
// known.
std::vector<DocumentSection> ComparisonSections(const report::RunComparison& comparison,
                                                std::size_t top);

}  // namespace strobe::cli
