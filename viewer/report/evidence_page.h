// Reads the verdict on a job that stood still, evidence.json, for the page. Nothing of it is
// trusted. Pure.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/statusor.h"

namespace strobe::viewer {

inline constexpr std::size_t kMaxEvidenceRead = 4u << 20;  // Writers end at half of it.
// How much of it the page shows.
inline constexpr std::size_t kShownStacks = 200, kShownFrames = 200, kShownRanks = 4096,
                             kShownSilent = 20;

// {"class", "confidence", "lines": [the verdict's sentences], "stacks": [{"ranks", "thread",
// "keepGil", "moved", "frames": [{"file", "line", "name"}]}], "missing": [{"worker", "why"}]}, with
// "stacksMore", "missingMore" and the like where a list was cut. InvalidArgument as ReadFields.
absl::StatusOr<nlohmann::ordered_json> ReadVerdict(std::string_view text);

// As above, with one line and nothing else.
nlohmann::ordered_json NoVerdict(std::string_view why);

}  // namespace strobe::viewer
