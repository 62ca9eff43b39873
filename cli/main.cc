// The `strobe` command: captures without Kubernetes, and work with the runs of logdirs.
#include <malloc.h>

#include <functional>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "cli/capture_command.h"
#include "cli/common_flags.h"
#include "cli/completion.h"
#include "cli/logdir_commands.h"
#include "cli/outcomes_command.h"
#include "cli/trace_commands.h"
#include "cli/view_command.h"
#include "common/base/ending_signals.h"
#include "common/base/log.h"
#include "common/base/version.h"

namespace strobe {
namespace {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run{};
};

// Makes a command whose flags live as long as the function that runs it.
template <typename Flags>
Command Add(CLI::App& app, const char* name, const char* about, void (*add)(CLI::App&, Flags&),
            int (*run)(const Flags&)) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(name, about);
  add(*command, *flags);
  return {command, [flags, run] { return run(*flags); }};
}

Command AddCompletion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "Print a completion script for bash, zsh or fish.");
  AddCompletionFlags(*command, *shell);
  return {command, [&app, shell] {
            std::cout << CompletionScript(app, *shell);
            return kExitOk;
          }};
}

std::vector<Command> AddCommands(CLI::App& app) {
  return {
      Add(app, "capture",
          "Record a trace of all workers, beginning at the same instant, and store it in a logdir.",
          AddCaptureFlags, RunCapture),
      Add(app, "ls", "List the runs of a logdir, or the workers of one run.", AddLsFlags, RunLs),
      Add(app, "cp", "Copy runs from one logdir to another and verify their checksums.", AddCpFlags,
          RunCp),
      Add(app, "rm", "Delete runs of a logdir.", AddRmFlags, RunRm),
      Add(app, "inspect",
          "Show whether traces are complete, their training steps, and which events take the time.",
          AddInspectFlags, RunInspect),
      Add(app, "convert", "Convert traces for chrome://tracing, Perfetto or a spreadsheet.",
          AddConvertFlags, RunConvert),
      Add(app, "merge", "Merge the traces of all workers of a run into one, on one clock.",
          AddMergeFlags, RunConvert),
      Add(app, "view", "Show traces in the browser.", AddViewFlags, RunView),
      Add(app, "outcomes", "Explain what each outcome of a worker means and what to do about it.",
          AddOutcomesFlags, RunOutcomes),
      AddCompletion(app),
  };
}

bool IsCommand(const CLI::App& app, const char* name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->check_name(name)) return true;
  }
  return false;
}

int Main(int argc, char** argv) {
  CLI::App app("Record synchronized profiles of many workers, and work with the recorded runs.",
               "strobe");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.footer(
      "Example:\n"
      "  strobe capture --insecure-plaintext --workers 10.0.0.2:9470,10.0.0.3:9470 --logdir "
      "/nfs/logs\n"
      "strobe COMMAND --help explains a command and its flags.");
  const std::vector<Command> commands = AddCommands(app);
  // CLI11 would call an unknown command an unexpected argument.
  if (argc > 1 && argv[1][0] != '-' && !IsCommand(app, argv[1])) {
    std::cerr << "strobe: there is no command \"" << argv[1] << "\"; strobe --help lists them\n";
    return kExitWrongFlags;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // Also thrown for --help and --version.
    return app.exit(error) == 0 ? kExitOk : kExitWrongFlags;
  }
  InitLog(LogLevel::kError, LogFormat::kText);
  for (const Command& command : commands) {
    if (*command.app) return command.run();
  }
  return kExitWrongFlags;  // Not reached: a command is required.
}

}  // namespace
}  // namespace strobe

int main(int argc, char** argv) {
  strobe::IgnoreBrokenPipes();
  // The large buffers of a trace's index are mapped one by one, so that their memory returns to the
  // system as soon as they are freed. Kept in the heap, they would take half as much memory again.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  return strobe::Main(argc, argv);
}
