#include <unistd.h>

#include <iostream>

#include "cli/logdir_commands.h"
#include "cli/open_place.h"
#include "cli/storage_flags.h"
#include "common/base/duration.h"
#include "common/base/name_rules.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

bool Confirmed(std::size_t runs, const Logdir& logdir) {
  std::cerr << "Delete " << runs << (runs == 1 ? " run" : " runs") << " from " << logdir.url()
            << "? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace

void AddRmFlags(CLI::App& command, RmFlags& flags) {
  command
      .add_option("logdir", flags.place,
                  "URL of a run, or a logdir with --run, --older-than or --all")
      ->required();
  command.add_option("--run", flags.runs, "name of a run of the logdir; may be given many times");
  command.add_option("--older-than", flags.older_than,
                     "runs whose name begins with an older time, such as 720h");
  command.add_flag("--all", flags.all, "all runs of the logdir");
  command.add_flag("--yes", flags.yes, "do not ask");
  command.add_flag("--dry-run", flags.dry_run, "only say which runs would go");
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "Examples:\n"
      "  strobe rm gs://bucket/logs/plugins/profile/2026_11_21_08_30_00_bench\n"
      "  strobe rm s3://bucket/logs --older-than 720h --dry-run\n"
      "Exit code: 0 deleted, 1 not or not all, 2 a flag is wrong.");
}

int RunRm(const RmFlags& flags) {
  const auto stores = CommandStores(flags.storage_config);
  if (!stores.ok()) return Complain(stores.status());
  const absl::StatusOr<OpenPlace> open = OpenRunPlace(**stores, flags.place);
  if (!open.ok()) return Complain(open.status());
  std::vector<std::string> runs = flags.runs;
  for (const std::string& run : runs) {
    if (!IsSafeName(run))
      return Complain(absl::InvalidArgumentError(StrCat("\"", run, "\" is no name of a run")));
  }
  if (!open->place.run.empty()) runs.push_back(open->place.run);
  if (flags.all || !flags.older_than.empty()) {
    std::string before = "~";  // Behind every name.
    if (!flags.older_than.empty()) {
      const absl::StatusOr<Nanos> age = ParseDuration(flags.older_than);
      if (!age.ok())
        return Complain(absl::InvalidArgumentError(StrCat("--older-than: ", Words(age.status()))));
      before = DefaultRunName(SystemClock().WallNow() - *age, "", "");
    }
    const absl::StatusOr<std::vector<std::string>> found = ListRuns(*open->store);
    if (!found.ok()) return Complain(found.status());
    for (const std::string& run : *found) {
      // A name that does not begin with a time says nothing about its age.
      const bool dated = !run.empty() && run.front() >= '0' && run.front() <= '9';
      if (flags.older_than.empty() || (dated && run < before)) runs.push_back(run);
    }
  } else if (runs.empty()) {
    return Complain(absl::InvalidArgumentError(
        "say which run: give the run's URL, --run NAME, --older-than or --all"));
  }
  if (runs.empty()) {
    std::cerr << "nothing to delete\n";
    return 0;
  }
  if (flags.dry_run) {
    for (const std::string& run : runs)
      std::cout << "would delete " << open->place.logdir.RunUrl(run) << "\n";
    return 0;
  }
  if (!flags.yes && isatty(STDIN_FILENO) == 1 && !Confirmed(runs.size(), open->place.logdir))
    return 1;
  if (!flags.yes && isatty(STDIN_FILENO) != 1)
    return Complain(absl::InvalidArgumentError("nobody is here to be asked; pass --yes"));
  bool complete = true;
  for (const std::string& run : runs) {
    const absl::StatusOr<std::uint64_t> deleted = DeleteBelow(*open->store, RunPrefix(run));
    if (!deleted.ok()) return Complain(deleted.status());
    if (*deleted == 0) {
      std::cerr << "NotFound: there is no run " << open->place.logdir.RunUrl(run) << "\n";
      complete = false;
      continue;
    }
    std::cout << "deleted " << open->place.logdir.RunUrl(run) << ", " << *deleted << " objects\n";
  }
  return complete ? 0 : 1;
}

}  // namespace strobe
