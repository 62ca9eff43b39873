// `strobe outcomes`: explains the outcomes of workers, from the table in
// common/protocol/outcome.cc.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace strobe::cli {

struct OutcomesFlags {
  std::string name{};  // Only this outcome; empty = all.
  std::string output = "text";
  bool markdown = false;
};

void AddOutcomesFlags(CLI::App& command, OutcomesFlags& flags);

// Returns the exit code: kExitWrongFlags when there is no outcome of that name.
int RunOutcomes(const OutcomesFlags& flags);

// A Markdown table.
std::string OutcomesAsMarkdown();
// All outcomes or, if `name` is not empty, only that one. Empty when there is no such outcome.
std::string OutcomesAsJson(const std::string& name);
std::string OutcomesAsText(const std::string& name);

}  // namespace strobe::cli
