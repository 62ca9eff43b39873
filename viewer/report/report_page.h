// Reads what a capture has stored for people, for the page: the report of a run, report.json, and
// the verdict on a job that stood still, evidence.json. Nothing of it is trusted. Pure.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/statusor.h"

namespace strobe::viewer {

inline constexpr std::size_t kMaxReportRead = 4u << 20;  // Writers end at half of it.
// How much of a report the page shows.
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
// "ops" are those of devices, if there are any.
absl::StatusOr<nlohmann::ordered_json> ReadReport(std::string_view text);

// Whether the report compares workers in steps, so that it says more than the timeline shows at
// first sight.
bool ComparesWorkers(const nlohmann::ordered_json& report);

inline constexpr std::size_t kMaxEvidenceRead = 4u << 20;  // Writers end at half of it.
// How much of a verdict the page shows.
inline constexpr std::size_t kShownStacks = 200, kShownFrames = 200, kShownRanks = 4096,
                             kShownSilent = 20;

// {"class", "confidence", "lines": [the verdict's sentences], "stacks": [{"ranks", "thread",
// "keepGil", "moved", "frames": [{"file", "line", "name"}]}], "missing": [{"worker", "why"}]}, with
// "stacksMore", "missingMore" and the like where a list was cut. InvalidArgument as ReadFields.
absl::StatusOr<nlohmann::ordered_json> ReadVerdict(std::string_view text);

// As above, with one line and nothing else.
nlohmann::ordered_json NoVerdict(std::string_view why);

}  // namespace strobe::viewer
