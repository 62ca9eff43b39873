// A command of a command line, with its flags.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <memory>
#include <vector>

#include "common/base/flag_failure.h"

namespace strobe::cli {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run{};  // Returns the exit code.
};

// Makes a command whose flags live as long as the function that runs it.
template <typename Flags>
Command AddCommand(CLI::App& app, const char* name, const char* about,
                   void (*add)(CLI::App&, Flags&), int (*run)(const Flags&)) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(name, about);
  add(*command, *flags);
  return {command, [flags, run] { return run(*flags); }};
}

// Runs the command that the user chose. Returns `wrong_flags` if there is none; if the command
// itself does, tells where its flags are explained.
inline int RunChosen(const std::vector<Command>& commands, int wrong_flags) {
  for (const Command& command : commands) {
    if (!*command.app) continue;
    const int code = command.run();
    if (code == wrong_flags && command.app->get_subcommands().empty())
      std::cerr << WhereToRead(*command.app);
    return code;
  }
  return wrong_flags;
}

}  // namespace strobe::cli
