// The program `strobe` under each of its names: the command that captures without Kubernetes and
// works with the runs of logdirs, and the plugin of kubectl.
#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <string_view>
#include <vector>

#include "cli/base/command.h"
#include "cli/base/common_flags.h"
#include "cli/base/trace_commands.h"
#include "cli/capture/capture_command.h"
#include "cli/completion.h"
#include "cli/fleet/fleet_command.h"
#include "cli/kube/kube_commands.h"
#include "cli/outcomes_command.h"
#include "cli/runs/logdir_commands.h"
#include "cli/show/serve_command.h"
#include "cli/show/view_command.h"
#include "cli/stall/why_command.h"
#include "common/base/ending_signals.h"
#include "common/base/flag_failure.h"
#include "common/base/help_format.h"
#include "common/base/log.h"
#include "common/base/program_start.h"
#include "common/base/version.h"

namespace strobe::cli {
namespace {

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

// The commands that kubectl-strobe has, for machines on which kubectl does not find it.
Command AddKube(CLI::App& app) {
  CLI::App* kube = app.add_subcommand(
      "kube", "Capture jobs of a Kubernetes cluster; the same as kubectl strobe.");
  const std::vector<Command> commands = AddKubeCommands(*kube);
  kube->footer(
      "Example:\n"
      "  strobe kube capture job/llm -n ml --duration 2s\n"
      "strobe kube COMMAND --help explains a command and its flags.");
  return {kube, [commands] { return RunChosen(commands, kExitWrongFlags); }};
}

std::vector<Command> AddCommands(CLI::App& app) {
  return {
      AddCommand(app, "capture", "Record a trace of all workers, beginning at the same instant.",
                 AddCaptureFlags, RunCapture),
      AddCommand(app, "view", "Show traces in the browser.", AddViewFlags, RunView),
      AddCommand(app, "report", "Show who holds up the others, and where each worker's time goes.",
                 AddReportFlags, RunReport),
      AddCommand(app, "inspect",
                 "Show whether traces are complete, their steps, and which events take the time.",
                 AddInspectFlags, RunInspect),
      AddCommand(app, "why", "Find out which rank holds up a job that stands still.", AddWhyFlags,
                 RunWhy),
      AddCommand(app, "stacks", "Show the Python stacks of all ranks, equal ones together.",
                 AddStacksFlags, RunStacks),
      AddCommand(app, "ls", "List the runs of a logdir, or the workers of one run.", AddLsFlags,
                 RunLs),
      AddCommand(app, "cp", "Copy runs from one logdir to another and verify their checksums.",
                 AddCpFlags, RunCp),
      AddCommand(app, "rm", "Delete runs of a logdir.", AddRmFlags, RunRm),
      AddCommand(app, "convert", "Convert traces for chrome://tracing, Perfetto or a spreadsheet.",
                 AddConvertFlags, RunConvert),
      AddCommand(app, "merge", "Merge the traces of all workers of a run into one, on one clock.",
                 AddMergeFlags, RunConvert),
      AddCommand(app, "fleet",
                 "Convert all runs of a logdir for SQL engines, here or by a Job in a cluster.",
                 AddFleetFlags, RunFleet),
      AddCommand(app, "serve", "Show traces to many people, each of whom logs in.", AddServeFlags,
                 RunServe),
      AddKube(app),
      AddCommand(app, "outcomes", "Explain how a worker's capture can end, and what to do.",
                 AddOutcomesFlags, RunOutcomes),
      AddCompletion(app),
  };
}

int Run(CLI::App& app, const std::vector<Command>& commands, int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "query") {
    std::cerr << "strobe: query is a command of the Python package (make wheel) and needs pip "
                 "install 'duckdb>=1.1'; strobe convert --to parquet writes the same tables\n";
    return kExitWrongFlags;
  }
  app.failure_message(FlagFailure<CLI::App, CLI::Error>);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // Also thrown for --help and --version.
    return app.exit(error) == 0 ? kExitOk : kExitWrongFlags;
  }
  InitLog(LogLevel::kError, LogFormat::kText);
  return RunChosen(commands, kExitWrongFlags);  // A command is required.
}

int Main(int argc, char** argv) {
  CLI::App app("Record synchronized profiles of many workers, and work with the recorded runs.",
               "strobe");
  app.formatter(std::make_shared<HelpFormat<CLI::Formatter, CLI::App, CLI::Option>>());
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.footer(
      "Example:\n"
      "  strobe capture --insecure-plaintext --workers 10.0.0.2:9470,10.0.0.3:9470 --logdir "
      "/nfs/logs\n"
      "  strobe view /nfs/logs\n"
      "strobe COMMAND --help explains a command and its flags.");
  return Run(app, AddCommands(app), argc, argv);
}

// kubectl runs this program as `kubectl strobe` under the name kubectl-strobe, and asks it under
// the name kubectl_complete-strobe for words that complete a command line.
int MainOfPlugin(bool completes, int argc, char** argv) {
  CLI::App app("Record synchronized profiles of the jobs of a Kubernetes cluster.",
               "kubectl strobe");
  app.formatter(std::make_shared<HelpFormat<CLI::Formatter, CLI::App, CLI::Option>>());
  app.set_version_flag("--version", kVersion);
  app.footer(
      "Example:\n"
      "  kubectl strobe capture job/llm -n ml --duration 2s\n"
      "kubectl strobe COMMAND --help explains a command and its flags.");
  const std::vector<Command> commands = AddKubeCommands(app);
  if (completes) return RunKubeCompletion(app, {argv + 1, argv + argc});
  return Run(app, commands, argc, argv);
}

int MainByName(int argc, char** argv) {
  const std::string_view path = argc > 0 ? argv[0] : "";
  const std::string_view name = path.substr(path.rfind('/') + 1);
  // The large buffers of a trace's index are mapped one by one, so that their memory returns to the
  // system as soon as they are freed. Kept in the heap, they would take half as much memory again.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  if (name == "kubectl-strobe") return MainOfPlugin(/*completes=*/false, argc, argv);
  if (name == "kubectl_complete-strobe") return MainOfPlugin(/*completes=*/true, argc, argv);
  return Main(argc, argv);
}

// Complains if what was printed could not be written, for example because a disk is full. A reader
// such as `head` that has read enough and gone is no failure.
int CodeAfterOutput(int code) {
  std::cout.flush();
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  const bool reader_gone = poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
  if (std::cout || reader_gone) return code;
  std::cerr << "strobe: what is printed cannot be written\n";
  return code == kExitOk ? kExitFailed : code;
}

}  // namespace
}  // namespace strobe::cli

int main(int argc, char** argv) {
  strobe::OccupyClosedStreams();
  strobe::IgnoreBrokenPipes();
  return strobe::cli::CodeAfterOutput(strobe::cli::MainByName(argc, argv));
}
