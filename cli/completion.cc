#include "cli/completion.h"

#include "common/base/strings.h"

namespace strobe::cli {
namespace {

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// The command's own commands and flags, separated by spaces.
std::string CompletionsOf(const CLI::App& app) {
  std::string words;
  for (const CLI::App* command : CommandsOf(app))
    words += StrCat(words.empty() ? "" : " ", command->get_name());
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      words += StrCat(words.empty() ? "" : " ", "--", name);
  }
  return words;
}

std::string Bash(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* command : CommandsOf(app)) {
    cases += StrCat("    ", command->get_name(), ") words=\"", CompletionsOf(*command), "\"");
    for (const CLI::App* below : CommandsOf(*command))
      cases += StrCat("\n      [[ ${COMP_WORDS[2]} == ", below->get_name(), " ]] && words=\"",
                      CompletionsOf(*below), "\"");
    cases += " ;;\n";
  }
  return StrCat(
      "_strobe() {\n  local words=\"", CompletionsOf(app), "\"\n  case \"${COMP_WORDS[1]}\" in\n",
      cases,
      "  esac\n  local word=${COMP_WORDS[COMP_CWORD]} hidden='-*'\n  [[ $word == -* ]] && hidden=\n"
      "  if [[ ${COMP_WORDS[COMP_CWORD-1]} == --logdir ]]; then\n"
      "    COMPREPLY=($(compgen -d -- \"$word\"))\n  else\n"
      "    COMPREPLY=($(compgen -W \"$words\" -X \"$hidden\" -- \"$word\"))\n  fi\n}\n"
      "complete -o default -F _strobe strobe\n");
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
  for (const CLI::App* command : CommandsOf(app)) {
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
