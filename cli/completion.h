// `strobe completion`: shell completion scripts, made from the commands and flags themselves.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace strobe::cli {

void AddCompletionFlags(CLI::App& command, std::string& shell);

// The script for "bash", "zsh" or "fish"; empty for any other shell. `app` has all commands.
std::string CompletionScript(const CLI::App& app, const std::string& shell);

}  // namespace strobe::cli
