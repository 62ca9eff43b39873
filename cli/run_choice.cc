#include "cli/run_choice.h"

#include <algorithm>

#include "cli/runs.h"
#include "common/base/duration.h"
#include "common/base/name_rules.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

void AddOnce(const std::string& run, std::vector<std::string>& runs) {
  if (std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
}

// Only a name that begins with a time tells the age of its run.
bool IsDated(const std::string& run) {
  return !run.empty() && run.front() >= '0' && run.front() <= '9';
}

// Appends the runs that --all or --older-than finds.
absl::Status AddFound(ObjectStore& store, const RunChoice& choice, WallTime now,
                      std::vector<std::string>& runs) {
  std::string limit;  // Runs with a smaller name are old enough.
  if (!choice.older_than.empty()) {
    const absl::StatusOr<Nanos> age = ParseDuration(choice.older_than);
    if (!age.ok())
      return absl::InvalidArgumentError(StrCat("--older-than: ", MessageOf(age.status())));
    limit = DefaultRunName(now - *age, "", "");
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> found, ListRuns(store));
  for (const std::string& run : found) {
    if (limit.empty() || (IsDated(run) && run < limit)) AddOnce(run, runs);
  }
  return absl::OkStatus();
}

}  // namespace

void AddRunChoiceFlags(CLI::App& command, RunChoice& choice) {
  command.add_option("--run", choice.runs, "name of a run in the logdir; can be repeated");
  command.add_flag("--all", choice.all, "all runs of the logdir");
}

absl::StatusOr<std::vector<std::string>> ChooseRuns(ObjectStore& store, const std::string& named,
                                                    const RunChoice& choice, WallTime now) {
  std::vector<std::string> runs;
  for (const std::string& run : choice.runs) {
    if (!IsSafeName(run))
      return absl::InvalidArgumentError(StrCat("\"", run, "\" is not a valid run name"));
    AddOnce(run, runs);
  }
  if (!named.empty()) AddOnce(named, runs);
  if (choice.all || !choice.older_than.empty()) {
    RETURN_IF_ERROR(AddFound(store, choice, now, runs));
  } else if (runs.empty()) {
    return absl::InvalidArgumentError(
        "no run is named: give the URL of a run, --run NAME or --all; strobe ls lists the runs");
  }
  return runs;
}

}  // namespace strobe
