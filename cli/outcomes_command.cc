#include "cli/outcomes_command.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "cli/base/common_flags.h"
#include "common/base/strings.h"
#include "common/protocol/outcome.h"

namespace strobe::cli {
namespace {

// What may cure the cause without anybody's help.
std::string_view Cure(const OutcomeInfo& info) {
  if (info.waitable) return info.retryable ? "waiting or a retry" : "waiting";
  return info.retryable ? "a retry" : "nothing";
}

template <typename Visit>
void ForEachOutcome(const std::string& name, const Visit& visit) {
  for (const OutcomeInfo& info : AllOutcomes()) {
    if (info.outcome == Outcome::kUnknown) continue;
    if (name.empty() || absl::EqualsIgnoreCase(ToAbsl(info.name), name)) visit(info);
  }
}

}  // namespace

void AddOutcomesFlags(CLI::App& command, OutcomesFlags& flags) {
  command.add_option("name", flags.name, "explain only this outcome, such as LateStart");
  command.add_flag("--markdown", flags.markdown, "print a Markdown table");
  AddOutputFlag(command, flags.output, "", {"text", "json"});
  command.footer(
      "Examples:\n"
      "  strobe outcomes\n"
      "  strobe outcomes LateStart\n"
      "Exit code: 0 printed, 2 there is no such outcome.");
}

int RunOutcomes(const OutcomesFlags& flags) {
  const std::string text = flags.markdown           ? OutcomesAsMarkdown()
                           : flags.output == "json" ? OutcomesAsJson(flags.name)
                                                    : OutcomesAsText(flags.name);
  if (text.empty()) {
    std::cerr << "strobe: there is no outcome \"" << flags.name
              << "\"; strobe outcomes lists them\n";
    return kExitWrongFlags;
  }
  std::cout << text;
  return kExitOk;
}

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
    const bool recovers = info.waitable || info.retryable;
    text += StrCat(info.name, "\n  ", info.detected, "\n  ",
                   recovers ? StrCat("Recovers by ", Cure(info)) : "Does not recover on its own",
                   ". ", info.remedy, "\n");
  });
  return text;
}

}  // namespace strobe::cli
