#include "cli/kube/kube_commands.h"

#include <iostream>
#include <map>

#include "cli/base/common_flags.h"
#include "cli/kube/completion_words.h"
#include "cli/kube/kubectl.h"

namespace strobe::cli {
namespace {

using cluster::CommandWords;

CommandWords::Takes TakesOf(const std::string& command) {
  if (command == "capture" || command == "check" || command == "why" || command == "stacks")
    return CommandWords::Takes::kTargets;
  return command == "ls" ? CommandWords::Takes::kNothing : CommandWords::Takes::kRequestNames;
}

CommandWords WordsOf(const CLI::App& command) {
  CommandWords words{.takes = TakesOf(command.get_name())};
  for (const CLI::Option* option : command.get_options()) {
    std::vector<std::string>& kind =
        option->get_items_expected_max() == 0 ? words.switches : words.flags;
    for (const std::string& name : option->get_lnames()) kind.push_back("--" + name);
  }
  return words;
}

}  // namespace

std::vector<Command> AddKubeCommands(CLI::App& app) {
  app.require_subcommand(1);
  return {
      AddCommand(app, "capture",
                 "Record a trace of all workers of a job, and wait until it is stored.",
                 AddKubeCaptureFlags, RunKubeCapture),
      AddCommand(app, "check", "Show whether a capture would work now and, if not, what to do.",
                 AddKubeCheckFlags, RunKubeCheck),
      AddCommand(app, "why", "Find out which rank holds up a job that stands still.",
                 AddKubeWhyFlags, RunKubeWhy),
      AddCommand(app, "stacks",
                 "Show the Python stacks of all ranks of a job, equal ones together.",
                 AddKubeStacksFlags, RunKubeStacks),
      AddCommand(app, "view", "Show a run in the browser, through a viewer in the cluster.",
                 AddKubeViewFlags, RunKubeView),
      AddCommand(app, "ls", "List the ProfileRequests of a namespace with their results.",
                 AddKubeListFlags, RunKubeList),
      AddCommand(app, "get", "Show the state and the results of ProfileRequests.", AddKubeGetFlags,
                 RunKubeGet),
      AddCommand(app, "cancel", "Cancel captures.", AddKubeCancelFlags, RunKubeCancel),
      AddCommand(app, "rm", "Delete ProfileRequests.", AddKubeRmFlags, RunKubeRm),
      AddCommand(app, "logs",
                 "Show a request's events, and the logs of the sidecars of workers that failed.",
                 AddKubeLogsFlags, RunKubeLogs),
      AddCommand(app, "cp", "Copy the run of a request to another logdir.", AddKubeCpFlags,
                 RunKubeCp),
  };
}

int RunKubeCompletion(const CLI::App& app, const std::vector<std::string>& line) {
  std::map<std::string, CommandWords> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    commands[command->get_name()] = WordsOf(*command);
  cluster::KubectlProcess kubectl(cluster::ConnectionArguments(line));
  std::cout << cluster::CompletionText(cluster::Complete(commands, line, kubectl));
  return kExitOk;
}

}  // namespace strobe::cli
