// Reads the report of a run, report.json, for the page. Nothing of it is trusted. Pure.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/statusor.h"

namespace strobe::viewer {

inline constexpr std::size_t kMaxReportRead = 4u << 20;  // Writers end at half of it.
// How much of it the page shows.
inline constexpr std::size_t kShownWorkers = 40, kShownSteps = 1000, kShownOps = 20,
                             kShownCalls = 20, kShownLate = 16, kShownMissing = 20,
                             kShownSentences = 50, kShownAdvice = 8, kShownGroups = 16,
                             kShownStages = 64, kShownBatches = 128;

// What the page shows of a report: known fields of the right types and in bounded numbers. A list
// that was cut has its rest counted beside it, such as "opsMore" beside "ops". What the report does
// not tell is null. InvalidArgument names the place of the first value of a wrong type.
//
// "workers" joins each worker's times with how long it waited and made others wait. Of a large job,
// only workers are kept that are named as late or made others wait longest, in the report's order.
absl::StatusOr<nlohmann::ordered_json> ReadReport(std::string_view text);

// Whether the report compares workers in steps, so that it says more than the timeline shows at
// first sight.
bool ComparesWorkers(const nlohmann::ordered_json& report);

}  // namespace strobe::viewer
