#include "cli/completion.h"

#include "common/base/strings.h"

namespace strobe::cli {
namespace {

// The command's flags, separated by spaces.
std::string FlagNames(const CLI::App& app) {
  std::string words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      words += StrCat(words.empty() ? "" : " ", "--", name);
  }
  return words;
}

std::string Bash(const CLI::App& app) {
  std::string commands, cases;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands += StrCat(commands.empty() ? "" : " ", command->get_name());
    cases += StrCat("    ", command->get_name(), ") words=\"", FlagNames(*command), "\" ;;\n");
  }
  return StrCat(
      "_strobe() {\n  local words=\"", commands, " ", FlagNames(app),
      "\"\n  case \"${COMP_WORDS[1]}\" in\n", cases,
      "  esac\n  if [[ ${COMP_WORDS[COMP_CWORD-1]} == --logdir ]]; then\n    COMPREPLY=($(compgen "
      "-d -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
      "  else\n    COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n  fi\n}\n"
      "complete -F _strobe strobe\n");
}

// Text within single quotes, as fish reads it.
std::string FishQuoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  return quoted + "'";
}

std::string Fish(const CLI::App& app) {
  std::string script;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    script += StrCat("complete -c strobe -f -n __fish_use_subcommand -a ", command->get_name(),
                     " -d ", FishQuoted(command->get_description()), "\n");
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        script += StrCat("complete -c strobe -n '__fish_seen_subcommand_from ", command->get_name(),
                         "' -l ", name, "\n");
      }
    }
  }
  return script;
}

}  // namespace

void AddCompletionFlags(CLI::App& command, std::string& shell) {
  command.add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command.footer(
      "Examples:\n"
      "  strobe completion bash > /etc/bash_completion.d/strobe\n"
      "  strobe completion fish > ~/.config/fish/completions/strobe.fish");
}

std::string CompletionScript(const CLI::App& app, const std::string& shell) {
  if (shell == "bash") return Bash(app);
  if (shell == "zsh") return "autoload -U +X bashcompinit && bashcompinit\n" + Bash(app);
  if (shell == "fish") return Fish(app);
  return "";
}

}  // namespace strobe::cli
