// Chooses the runs of a logdir that a command works on.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/store/object_store.h"
#include "common/base/clock.h"

namespace strobe::cli {

// What the user asked for. The choices add up.
struct RunChoice {
  std::vector<std::string> runs{};  // --run; may name runs that do not exist.
  bool all = false;                 // --all.
  // --older-than: all runs whose name begins with a time before this age. An empty text is a
  // mistake, such as a shell's variable that is not set, and chooses nothing.
  std::optional<std::string> older_than{};
};

// Adds --run and --all.
void AddRunChoiceFlags(CLI::App& command, RunChoice& choice);
// Adds --older-than.
void AddOlderThanFlag(CLI::App& command, RunChoice& choice);

// Returns the names of the chosen runs, each of them once: first the ones that are named, then the
// ones that are found. `named` is the run that the place itself names, as in ParseRunLocation, or
// empty. Empty when the logdir has no such run. InvalidArgument when nothing is chosen or a flag is
// wrong; otherwise the store's error.
absl::StatusOr<std::vector<std::string>> ChooseRuns(storage::ObjectStore& store,
                                                    const std::string& named,
                                                    const RunChoice& choice, WallTime now);

// What to ask before `runs` are deleted from the logdir at `url`: their number and their names, of
// which many are only counted.
std::string DeletionQuestion(const std::vector<std::string>& runs, const std::string& url);

}  // namespace strobe::cli
