#include "operator/cli/outcomes_command.h"

#include "collector/base/outcome.h"
#include "collector/base/strings.h"

namespace strobe {

std::string OutcomesAsMarkdown() {
  std::string text =
      "# Outcomes\n\nHow one worker's capture can end. Made by `strobe outcomes --markdown` from "
      "the one table in the code.\n\n"
      "| outcome | how Strobe knows | a retry can help | what to do |\n|---|---|---|---|\n";
  for (const OutcomeInfo& info : AllOutcomes()) {
    if (info.outcome == Outcome::kUnknown) continue;
    text += StrCat("| `", info.name, "` | ", info.detected, " | ", info.retryable ? "yes" : "no",
                   " | ", info.remedy, " |\n");
  }
  return text;
}

std::string OutcomesAsText(const std::string& name) {
  std::string text;
  for (const OutcomeInfo& info : AllOutcomes()) {
    if (info.outcome == Outcome::kUnknown || (!name.empty() && info.name != name)) continue;
    text += StrCat(info.name, "\n  ", info.detected, "\n  ",
                   info.retryable ? "A retry can help. " : "A retry does not help. ", info.remedy,
                   "\n");
  }
  return text;
}

}  // namespace strobe
