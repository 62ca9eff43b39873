#include "cli/base/run_choice.h"

#include <algorithm>

#include "cli/base/common_flags.h"
#include "cli/base/runs.h"
#include "collector/store/catalog/run_entry.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::cli {
namespace {

void AddOnce(const std::string& run, std::vector<std::string>& runs) {
  if (std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
}

// Whether the run's name says that it began before `limit`. The name must begin with a whole time:
// names such as "175b" and "100_steps" begin with a digit and tell no age.
bool BeganBefore(std::string_view run, WallTime limit) {
  constexpr std::string_view kTime = "2026_11_21_08_30_00";
  const std::int64_t time = catalog::TimeOfRunName(run);
  if (time == 0) return false;
  if (run.size() > kTime.size()) return run[kTime.size()] == '_' && FromUnixNanos(time) < limit;
  // A time alone is how JAX and TensorBoard name their runs, in local time. Strobe's own names are
  // in UTC and go on after the time. No local time differs from UTC by more than 14 hours.
  return FromUnixNanos(time) < limit - std::chrono::hours(14);
}

// Appends the runs that --all or --older-than finds.
absl::Status AddFound(storage::ObjectStore& store, const RunChoice& choice, WallTime now,
                      std::vector<std::string>& runs) {
  std::optional<WallTime> limit;  // Runs that began before it are old enough.
  if (choice.older_than) {
    ASSIGN_OR_RETURN(const Nanos age, DurationOf("--older-than", *choice.older_than));
    limit = now - age;
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> found, ListRuns(store));
  for (const std::string& run : found) {
    if (!limit || BeganBefore(run, *limit)) AddOnce(run, runs);
  }
  return absl::OkStatus();
}

}  // namespace

void AddRunChoiceFlags(CLI::App& command, RunChoice& choice) {
  command.add_option("--run", choice.runs, "name of a run in the logdir; can be repeated");
  command.add_flag("--all", choice.all, "all runs of the logdir");
}

void AddOlderThanFlag(CLI::App& command, RunChoice& choice) {
  // Not bound to the field itself, because CLI11 takes an empty text for no value then.
  command
      .add_option_function<std::string>(
          "--older-than", [&choice](const std::string& age) { choice.older_than = age; },
          "all runs that are older, such as 720h, by the time at the start of their names, in UTC; "
          "runs "
          "whose name is only a time must be 14h older, because it may be local time")
      ->type_name("DURATION");
}

absl::StatusOr<std::vector<std::string>> ChooseRuns(storage::ObjectStore& store,
                                                    const std::string& named,
                                                    const RunChoice& choice, WallTime now) {
  std::vector<std::string> runs;
  for (const std::string& run : choice.runs) {
    if (!IsSafeName(run))
      return absl::InvalidArgumentError(StrCat("\"", run, "\" is not a valid run name"));
    AddOnce(run, runs);
  }
  if (!named.empty()) AddOnce(named, runs);
  if (choice.all || choice.older_than) {
    RETURN_IF_ERROR(AddFound(store, choice, now, runs));
  } else if (runs.empty()) {
    return absl::InvalidArgumentError(
        "no run is named: give the URL of a run, --run NAME or --all; strobe ls lists the runs");
  }
  return runs;
}

std::string DeletionQuestion(const std::vector<std::string>& runs, const std::string& url) {
  constexpr std::size_t kNamed = 20;
  std::string text =
      StrCat("Delete ", runs.size(), runs.size() == 1 ? " run" : " runs", " from ", url, "?\n");
  for (std::size_t i = 0; i < std::min(runs.size(), kNamed); ++i)
    text += StrCat("  ", WithoutControls(runs[i]), "\n");
  if (runs.size() > kNamed)
    text += StrCat("  and ", runs.size() - kNamed, " more; --dry-run lists all of them\n");
  return text + "[y/N] ";
}

}  // namespace strobe::cli
