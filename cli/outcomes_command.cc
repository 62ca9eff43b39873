#include "cli/outcomes_command.h"

#include <nlohmann/json.hpp>

#include "common/base/outcome.h"
#include "common/base/strings.h"

namespace strobe {

namespace {

// What can be done without anybody's help.
std::string_view Cure(const OutcomeInfo& info) {
  if (info.waitable) return info.retryable ? "waiting or a retry" : "waiting";
  return info.retryable ? "a retry" : "nothing";
}

template <typename Visit>
void ForEachOutcome(const std::string& name, const Visit& visit) {
  for (const OutcomeInfo& info : AllOutcomes()) {
    if (info.outcome != Outcome::kUnknown && (name.empty() || info.name == name)) visit(info);
  }
}

}  // namespace

std::string OutcomesAsMarkdown() {
  std::string text =
      "# Outcomes\n\nHow one worker's capture can end. Made by `strobe outcomes --markdown` from "
      "the one table in the code.\n\n"
      "| outcome | how Strobe knows | what may cure it by itself | what to do "
      "|\n|---|---|---|---|\n";
  ForEachOutcome("", [&](const OutcomeInfo& info) {
    text += StrCat("| `", info.name, "` | ", info.detected, " | ", Cure(info), " | ", info.remedy,
                   " |\n");
  });
  return text;
}

std::string OutcomesAsJson(const std::string& name) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  ForEachOutcome(name, [&](const OutcomeInfo& info) {
    all.push_back({{"name", info.name},
                   {"detected", info.detected},
                   {"retryable", info.retryable},
                   {"waitable", info.waitable},
                   {"hasTrace", info.has_trace},
                   {"remedy", info.remedy}});
  });
  return all.empty() ? "" : all.dump(2) + "\n";
}

std::string OutcomesAsText(const std::string& name) {
  std::string text;
  ForEachOutcome(name, [&](const OutcomeInfo& info) {
    text += StrCat(info.name, "\n  ", info.detected, "\n  ", "Cured by itself by ", Cure(info),
                   ". ", info.remedy, "\n");
  });
  return text;
}

}  // namespace strobe
