// What the iterations of inference servers took, as sections of a report. Pure.
#pragma once
#include <span>
#include <vector>

#include "cli/report/report_document.h"
#include "collector/trace/digest/digest.h"
#include "collector/trace/report/engine_times.h"

namespace strobe::cli {

report::EngineReport EngineOf(std::span<const digest::Digest> digests);

// Iterations by the size of their batches, and the time between them by reason. Empty for workers
// that are no servers.
std::vector<DocumentSection> EngineSections(const report::EngineReport& engine);

}  // namespace strobe::cli
