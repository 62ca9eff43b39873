// What the commands for clusters share: kubectl, what the user sees while they wait, interrupts.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "cli/cluster/kubectl.h"
#include "operator/core/request.h"

namespace strobe {

// Counts the user's interrupts from its construction on. One that comes while a command waits does
// not end the process; the second one after `kLeave` does.
class Interrupts {
 public:
  static constexpr int kLeave = 2;
  Interrupts();
  int count() const;
};

// Shows one line of progress on stderr: on a terminal it is rewritten, elsewhere each new text is a
// line.
class ProgressText {
 public:
  explicit ProgressText(bool quiet);
  void Show(const std::string& text);
  void Clear();

 private:
  const bool quiet_, terminal_;
  std::string shown_{};
};

// Waits a second, or until there are more interrupts than `interrupts`.
void PauseOneSecond(const Interrupts& interrupts, int known);

// Creates the object and returns it as the API server stored it. Warnings of webhooks go to stderr.
// `flags` are more arguments for kubectl, such as --dry-run=server.
absl::StatusOr<std::string> CreateObject(cluster::Kubectl& kubectl, const std::string& objects,
                                         const std::vector<std::string>& flags);

// The object in the file of --from as JSON; null without one.
absl::StatusOr<nlohmann::ordered_json> ReadFrom(cluster::Kubectl& kubectl, const std::string& file);

}  // namespace strobe
