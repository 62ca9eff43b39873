#include <unistd.h>

#include <iostream>

#include "cli/base/common_flags.h"
#include "cli/base/open_location.h"
#include "cli/runs/logdir_commands.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

bool Confirmed(const std::vector<std::string>& runs, const storage::Logdir& logdir) {
  std::cerr << DeletionQuestion(runs, logdir.url()) << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

// A run that cannot be deleted does not keep the others, unless its store does not answer.
int Delete(const OpenLocation& open, const std::vector<std::string>& runs) {
  std::size_t deleted_runs = 0;
  for (const std::string& run : runs) {
    const absl::StatusOr<std::uint64_t> deleted =
        storage::DeleteBelow(*open.store, storage::RunPrefix(run));
    const std::string url = open.location.logdir.RunUrl(run);
    if (!deleted.ok()) {
      Complain(deleted.status());
      if (absl::IsUnavailable(deleted.status()) || absl::IsDeadlineExceeded(deleted.status()))
        break;
    } else if (*deleted == 0) {
      Complain(absl::NotFoundError(StrCat("there is no run ", url)));
    } else {
      ++deleted_runs;
      std::cout << "deleted " << url << ", " << *deleted << " objects\n";
    }
  }
  if (deleted_runs == runs.size()) return kExitOk;
  if (runs.size() > 1)
    std::cerr << "deleted " << deleted_runs << " of " << runs.size() << " runs\n";
  return kExitFailed;
}

}  // namespace

void AddRmFlags(CLI::App& command, RmFlags& flags) {
  command
      .add_option("logdir", flags.location,
                  "URL of a run, or a logdir with --run, --older-than or --all")
      ->required();
  AddRunChoiceFlags(command, flags.choice);
  AddOlderThanFlag(command, flags.choice);
  command.add_flag("--yes", flags.yes, "do not ask for confirmation");
  command.add_flag("--dry-run", flags.dry_run, "only print which runs would be deleted");
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "Examples:\n"
      "  strobe rm gs://bucket/logs/plugins/profile/2026_11_21_08_30_00_bench\n"
      "  strobe rm s3://bucket/logs --older-than 720h --dry-run\n"
      "Exit code: 0 deleted, 1 not or not all of it deleted, 2 a flag is wrong.");
}

int RunRm(const RmFlags& flags) {
  const absl::StatusOr<OpenLocation> open =
      OpenExistingLocation(flags.location, flags.storage_config);
  if (!open.ok()) return Complain(open.status());
  const absl::StatusOr<std::vector<std::string>> runs =
      ChooseRuns(*open->store, open->location.run, flags.choice, SystemClock().WallNow());
  if (!runs.ok()) return Complain(runs.status());
  if (runs->empty()) {
    std::cerr << "nothing to delete\n";
    return kExitOk;
  }
  if (flags.dry_run) {
    for (const std::string& run : *runs)
      std::cout << "would delete " << open->location.logdir.RunUrl(run) << "\n";
    return kExitOk;
  }
  if (!flags.yes && isatty(STDIN_FILENO) != 1)
    return Complain(absl::InvalidArgumentError("there is no terminal to ask on; pass --yes"));
  if (!flags.yes && !Confirmed(*runs, open->location.logdir)) return kExitFailed;
  return Delete(*open, *runs);
}

}  // namespace strobe::cli
