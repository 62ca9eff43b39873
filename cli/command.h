// A command of a command line, with its flags.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <vector>

namespace strobe {

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

// Runs the command that the user chose; `otherwise` if there is none.
inline int RunChosen(const std::vector<Command>& commands, int otherwise) {
  for (const Command& command : commands) {
    if (*command.app) return command.run();
  }
  return otherwise;
}

}  // namespace strobe
