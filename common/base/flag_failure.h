// What a program says when its command line is wrong. App and Error are those of CLI11, which only
// programs include.
#pragma once
#include <string>

namespace strobe {

// "strobe report": the command that the user gave, with the program's name.
template <typename App>
std::string NameOfCommand(const App& command) {
  const App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : NameOfCommand(*parent) + " " + command.get_name();
}

template <typename App>
std::string WhereToRead(const App& command) {
  return NameOfCommand(command) + " --help explains its flags\n";
}

// The error with the command and, from the flag's own explanation, what it can be. For
// App::failure_message.
template <typename App, typename Error>
std::string FlagFailure(const App* app, const Error& error) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  std::string what = error.what();
  // "--output: yaml not in {table,json}"
  const std::string kNotIn = " not in {";
  if (const std::size_t at = what.find(kNotIn); at != std::string::npos && what.ends_with('}')) {
    std::string choices = what.substr(at + kNotIn.size());
    choices.pop_back();
    for (std::size_t comma = choices.find(','); comma != std::string::npos;
         comma = choices.find(',', comma + 2))
      choices.insert(comma + 1, " ");
    what = what.substr(0, at) + " is not one of " + choices;
  }
  std::string text = NameOfCommand(*app) + ": " + what + "\n";
  for (const auto* option : app->get_options()) {
    const std::string name = option->get_name();
    const std::size_t at = what.find(name);
    if (at == std::string::npos || name.empty()) continue;
    const std::size_t end = at + name.size();
    const bool whole = (at == 0 || what[at - 1] == ' ') &&
                       (end == what.size() || what[end] == ':' || what[end] == ' ');
    if (whole && !option->get_description().empty())
      text += "  " + name + ": " + option->get_description() + "\n";
  }
  return text + WhereToRead(*app);
}

}  // namespace strobe
