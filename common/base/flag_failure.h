// What a program says when its command line is wrong. App and Error are those of CLI11, which only
// programs include.
#pragma once
#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strobe {

// "; did you mean capture?" if one of the words is at most two letters away from `typed`.
inline std::string DidYouMean(std::string_view typed, const std::vector<std::string>& words) {
  std::size_t least = std::min<std::size_t>(3, typed.size() / 2 + 1);
  std::string_view nearest;
  for (const std::string& word : words) {
    // Levenshtein's distance, one row of the table at a time.
    std::vector<std::size_t> row(word.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < typed.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j < word.size(); ++j) {
        const std::size_t changed = diagonal + (typed[i] == word[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
      }
    }
    if (row.back() < least) {
      least = row.back();
      nearest = word;
    }
  }
  return nearest.empty() ? "" : "; did you mean " + std::string(nearest) + "?";
}

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

// Names a command or a flag that does not exist; empty if there is none. CLI11 would complain of
// what is missing instead.
template <typename App>
std::string UnknownWord(const App& app, bool needs_command) {
  const std::vector<std::string> left = app.remaining();
  const auto flag = std::find_if(left.begin(), left.end(), [](const std::string& word) {
    return word.size() > 1 && word.starts_with('-');
  });
  std::vector<std::string> known;
  if (flag != left.begin() || left.empty()) {
    for (const App* command : app.get_subcommands([](const App*) { return true; }))
      known.push_back(command->get_name());
    const std::string lists = "\n" + NameOfCommand(app) + " --help lists the commands\n";
    if (!known.empty() && !left.empty())
      return "there is no command " + left.front() + DidYouMean(left.front(), known) + lists;
    if (needs_command) return "no command is given" + lists;
    known.clear();
  }
  if (left.empty()) return "";
  if (flag == left.end())
    return "\"" + left.front() + "\" is one argument too many\n" + WhereToRead(app);
  for (const auto* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::string typed = flag->substr(0, flag->find('='));
  return "there is no flag " + typed + DidYouMean(typed, known) + "\n" + WhereToRead(app);
}

// The error with the command and, from the flag's own explanation, what it can be. For
// App::failure_message.
template <typename App, typename Error>
std::string FlagFailure(const App* app, const Error& error) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  std::string what = error.what();
  if (error.get_name() == "RequiredError" || what.starts_with("The following argument")) {
    const std::string unknown = UnknownWord(*app, what == "A subcommand is required");
    if (!unknown.empty()) return NameOfCommand(*app) + ": " + unknown;
  }
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
  // "--logdir: At Most 1 required but received 2"
  if (const std::size_t at = what.find(": At Most 1 required but received ");
      at != std::string::npos)
    what = what.substr(0, at) + " is given more than once";
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
