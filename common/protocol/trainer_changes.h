// What Strobe changes in a trainer's process, by the names that switch each change off
// (docs/reference/trainer-changes.md). The agent reads them in $STROBE_DISABLE. Pure.
#pragma once
#include <algorithm>
#include <array>
#include <string_view>

namespace strobe {

inline constexpr std::array<std::string_view, 14> kTrainerChanges = {
    "agent",      "collectives",     "devices",        "evidence",     "flight-recorder",
    "in-process", "keep-cupti",      "server",         "serving",      "skip-destructors",
    "steps",      "switch-interval", "teardown-cupti", "torch-results"};

inline bool IsTrainerChange(std::string_view name) {
  return std::ranges::find(kTrainerChanges, name) != kTrainerChanges.end();
}

}  // namespace strobe
