// Shell completion scripts, made from the flags themselves.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace strobe {

// For "bash", "zsh" or "fish"; empty for any other shell.
std::string CompletionScript(const CLI::App& app, const std::string& shell);

}  // namespace strobe
