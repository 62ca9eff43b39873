#include "cli/kube/completion_words.h"

#include <algorithm>
#include <array>

#include "cli/kube/target_argument.h"
#include "common/base/strings.h"
#include "operator/base/names.h"

namespace strobe::cluster {
namespace {

// Completion must not keep a shell waiting for a cluster that does not answer.
constexpr Nanos kPatience = std::chrono::seconds(5);
// Cobra's directives; see ShellCompDirective in github.com/spf13/cobra/completions.go.
constexpr int kNoSpace = 2, kNoFiles = 4;

struct Connection {
  std::string_view longer, shorter;
};
constexpr std::array<Connection, 6> kConnection = {{{"--namespace", "-n"},
                                                    {"--context", ""},
                                                    {"--kubeconfig", ""},
                                                    {"--cluster", ""},
                                                    {"--user", ""},
                                                    {"--as", ""}}};

bool Is(const Connection& flag, const std::string& word) {
  return word == flag.longer || (!flag.shorter.empty() && word == flag.shorter);
}

// The names that kubectl writes for `--output=name`: a line "job.batch/llm" gives "llm".
std::vector<std::string> Names(Kubectl& kubectl, const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  const absl::StatusOr<KubectlResult> result = kubectl.Run(arguments, "", kPatience);
  if (!result.ok() || result->exit_code != 0) return names;
  for (const std::string& line : Split(result->out, '\n')) {
    if (!line.empty()) names.push_back(line.substr(line.rfind('/') + 1));
  }
  return names;
}

Completion Targets(const std::string& word, Kubectl& kubectl) {
  Completion completion;
  const std::size_t slash = word.find('/');
  if (slash == std::string::npos) {
    completion.more_follows = true;
    for (const std::string& kind : KindWords()) completion.words.push_back(kind + "/");
    return completion;
  }
  const std::string kind = word.substr(0, slash);
  for (const std::string& name : Names(kubectl, {"get", kind, "--output=name"}))
    completion.words.push_back(StrCat(kind, "/", name));
  return completion;
}

// The values of the flag before the word; nothing if it has none that are known.
std::vector<std::string> Values(const std::string& flag, Kubectl& kubectl) {
  if (flag == "-n" || flag == "--namespace")
    return Names(kubectl, {"get", "namespaces", "--output=name"});
  if (flag == "--context") return Names(kubectl, {"config", "get-contexts", "--output=name"});
  if (flag == "-o" || flag == "--output") return {"json", "yaml", "name"};
  if (flag == "--dry-run") return {"server", "client", "none"};
  return {};
}

// Whether the word after this one is its value.
bool TakesValue(const std::string& before, const CommandWords& command) {
  return before.starts_with('-') && before.find('=') == std::string::npos &&
         std::find(command.switches.begin(), command.switches.end(), before) ==
             command.switches.end();
}

}  // namespace

std::vector<std::string> ConnectionArguments(const std::vector<std::string>& line) {
  std::vector<std::string> arguments;
  for (std::size_t i = 0; i < line.size(); ++i) {
    for (const Connection& flag : kConnection) {
      // The last word is being written.
      if (Is(flag, line[i]) && i + 2 < line.size())
        arguments.push_back(StrCat(flag.longer, "=", line[i + 1]));
      else if (line[i].starts_with(StrCat(flag.longer, "=")) && i + 1 < line.size())
        arguments.push_back(line[i]);
    }
  }
  return arguments;
}

Completion Complete(const std::map<std::string, CommandWords>& commands,
                    const std::vector<std::string>& line, Kubectl& kubectl) {
  Completion completion;
  if (line.empty()) return completion;
  const std::string& word = line.back();
  const std::string before = line.size() > 1 ? line[line.size() - 2] : "";
  auto command = commands.end();
  for (std::size_t i = 0; i + 1 < line.size() && command == commands.end(); ++i)
    command = commands.find(line[i]);
  if (TakesValue(before, command == commands.end() ? CommandWords{} : command->second)) {
    completion.words = Values(before, kubectl);
  } else if (command == commands.end()) {
    for (const auto& [name, words] : commands) completion.words.push_back(name);
  } else if (word.starts_with('-')) {
    completion.words = command->second.flags;
    completion.words.insert(completion.words.end(), command->second.switches.begin(),
                            command->second.switches.end());
  } else if (command->second.takes == CommandWords::Takes::kRequestNames) {
    completion.words = Names(kubectl, {"get", kube::kRequestsDefinition, "--output=name"});
  } else if (command->second.takes == CommandWords::Takes::kTargets) {
    completion = Targets(word, kubectl);
  }
  std::erase_if(completion.words, [&](const std::string& each) { return !each.starts_with(word); });
  return completion;
}

std::string CompletionText(const Completion& completion) {
  std::string text;
  for (const std::string& word : completion.words) text += word + "\n";
  return StrCat(text, ":", kNoFiles + (completion.more_follows ? kNoSpace : 0), "\n");
}

}  // namespace strobe::cluster
