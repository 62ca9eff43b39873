// Which words complete a command line of `kubectl strobe`. Only this part asks the cluster, and
// only for what the word at the cursor can be.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cli/kube/kubectl.h"

namespace strobe::cluster {

// A command, and what its arguments are.
struct CommandWords {
  enum class Takes { kNothing, kTargets, kRequestNames };
  Takes takes = Takes::kNothing;
  std::vector<std::string> flags{};     // "--duration".
  std::vector<std::string> switches{};  // Flags that take no value.
};

struct Completion {
  std::vector<std::string> words{};
  bool more_follows = false;  // The word is not complete: no space after it.
};

// `line` is what follows `kubectl strobe`; its last word, which may be empty, is completed.
// What kubectl refuses completes nothing.
Completion Complete(const std::map<std::string, CommandWords>& commands,
                    const std::vector<std::string>& line, Kubectl& kubectl);

// The arguments of the line that choose the cluster and the namespace, for kubectl.
std::vector<std::string> ConnectionArguments(const std::vector<std::string>& line);

// What kubectl expects from the program kubectl_complete-strobe: a word a line, then Cobra's
// directive; see getPluginCompletions in k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go.
std::string CompletionText(const Completion& completion);

}  // namespace strobe::cluster
