// strobe: captures without Kubernetes, and the runs of logdirs.
#include <malloc.h>

#include <iostream>

#include "cli/capture_command.h"
#include "cli/completion.h"
#include "cli/logdir_commands.h"
#include "cli/outcomes_command.h"
#include "cli/trace_commands.h"
#include "cli/view_command.h"
#include "common/base/ending_signals.h"
#include "common/base/log.h"
#include "common/base/version.h"

int main(int argc, char** argv) {
  strobe::IgnoreBrokenPipes();
  // The large buffers of a trace's index go back to the system as soon as they are free; kept in
  // the heap they would be half as much memory again.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  CLI::App app("Synchronized profiler captures of many workers.", "strobe");
  app.set_version_flag("--version", strobe::kVersion);
  app.require_subcommand(1);
  strobe::CaptureFlags flags;
  CLI::App* capture = app.add_subcommand(
      "capture", "record all workers from one instant and put the traces into a logdir");
  strobe::AddCaptureFlags(*capture, flags);

  strobe::LsFlags ls_flags;
  CLI::App* ls = app.add_subcommand("ls", "list the runs of a logdir, or one run's workers");
  strobe::AddLsFlags(*ls, ls_flags);
  strobe::CpFlags cp_flags;
  CLI::App* cp = app.add_subcommand("cp", "copy runs between logdirs, checksums verified");
  strobe::AddCpFlags(*cp, cp_flags);
  strobe::RmFlags rm_flags;
  CLI::App* rm = app.add_subcommand("rm", "delete runs");
  strobe::AddRmFlags(*rm, rm_flags);

  strobe::InspectFlags inspect_flags;
  CLI::App* inspect = app.add_subcommand(
      "inspect", "what traces hold: planes, steps, the events that take the time, problems");
  strobe::AddInspectFlags(*inspect, inspect_flags);
  strobe::ConvertFlags convert_flags;
  CLI::App* convert =
      app.add_subcommand("convert", "traces for chrome://tracing, Perfetto or a spreadsheet");
  strobe::AddConvertFlags(*convert, convert_flags);

  strobe::ConvertFlags merge_flags;
  CLI::App* merge = app.add_subcommand("merge", "all workers of a run as one trace, on one clock");
  strobe::AddMergeFlags(*merge, merge_flags);

  strobe::ViewFlags view_flags;
  CLI::App* view = app.add_subcommand("view", "show traces in the browser");
  strobe::AddViewFlags(*view, view_flags);

  std::string outcome, outcomes_output = "text", shell;
  bool markdown = false;
  CLI::App* outcomes =
      app.add_subcommand("outcomes", "what each outcome of a worker means and what to do about it");
  outcomes->add_option("name", outcome, "only this one, such as LateStart");
  outcomes->add_flag("--markdown", markdown, "as a Markdown table");
  outcomes->add_option("--output", outcomes_output, "text or json")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "json"}));
  CLI::App* completion =
      app.add_subcommand("completion", "print a completion script for bash, zsh or fish");
  completion->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->footer("Example: strobe completion bash > /etc/bash_completion.d/strobe");

  if (argc > 1 && argv[1][0] != '-') {
    bool known = false;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
      known = known || command->check_name(argv[1]);
    if (!known) {
      std::cerr << "strobe: there is no command \"" << argv[1] << "\"; strobe --help lists them\n";
      return 2;
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  strobe::InitLog(strobe::LogLevel::kError, strobe::LogFormat::kText);
  if (*outcomes) {
    const std::string text = markdown                    ? strobe::OutcomesAsMarkdown()
                             : outcomes_output == "json" ? strobe::OutcomesAsJson(outcome)
                                                         : strobe::OutcomesAsText(outcome);
    if (text.empty())
      std::cerr << "strobe: there is no outcome \"" << outcome
                << "\"; strobe outcomes lists them\n";
    std::cout << text;
    return text.empty() ? 2 : 0;
  }
  if (*completion) {
    std::cout << strobe::CompletionScript(app, shell);
    return 0;
  }
  if (*ls) return strobe::RunLs(ls_flags);
  if (*cp) return strobe::RunCp(cp_flags);
  if (*rm) return strobe::RunRm(rm_flags);
  if (*inspect) return strobe::RunInspect(inspect_flags);
  if (*convert) return strobe::RunConvert(convert_flags);
  if (*merge) return strobe::RunConvert(merge_flags);
  if (*view) return strobe::RunView(view_flags);
  return strobe::RunCapture(flags);
}
