#include <algorithm>
#include <iostream>
#include <iterator>
#include <utility>

#include "cli/base/common_flags.h"
#include "cli/base/open_location.h"
#include "cli/base/runs.h"
#include "cli/runs/logdir_commands.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

// Prints objects as they are listed, because a logdir may have millions of them.
int ListObjects(const OpenLocation& open, bool json) {
  const std::string prefix = open.location.run.empty() ? "" : storage::RunPrefix(open.location.run);
  std::string_view before = "[";
  const absl::Status status = open.store->List(prefix, [&](const storage::StoredObject& object) {
    if (json)
      std::cout << std::exchange(before, ",") << "\n  " << ObjectJson(object);
    else
      std::cout << object.bytes << '\t' << object.key << '\n';
    return static_cast<bool>(std::cout);
  });
  if (json && status.ok()) std::cout << (before == "[" ? "[]\n" : "\n]\n");
  std::cout.flush();
  return status.ok() ? kExitOk : Complain(status);
}

int ListOneRun(const LsFlags& flags, const OpenLocation& open) {
  const absl::StatusOr<std::vector<storage::StoredObject>> objects =
      storage::ListAll(*open.store, storage::RunPrefix(open.location.run));
  if (!objects.ok()) return Complain(objects.status());
  if (objects->empty()) {
    return Complain(absl::NotFoundError(
        StrCat("there is no run ", open.location.logdir.RunUrl(open.location.run))));
  }
  const RunSummary run = ReadRuns(*open.store, {open.location.run}).front();
  std::cout << (flags.output == "json" ? RunsJson(open.location.logdir, {run})
                                       : RunTable(run, *objects));
  return kExitOk;
}

}  // namespace

void AddLsFlags(CLI::App& command, LsFlags& flags) {
  command.add_option("logdir", flags.location, "a logdir, or the URL of one of its runs")
      ->required();
  command.add_option("--limit", flags.limit, "how many runs to list, the newest first")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000'000));
  command.add_flag("--all", flags.all, "list all runs");
  command.add_flag("--objects", flags.objects, "list objects and their sizes instead of runs");
  AddOutputFlag(command, flags.output);
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "Examples:\n"
      "  strobe ls gs://my-bucket/logs\n"
      "  strobe ls 's3://my-bucket/logs?endpoint=https://minio.example:9000' --all --output json\n"
      "  strobe ls /nfs/logs/plugins/profile/2026_11_21_08_30_00_bench   # one run\n"
      "Exit code: 0 listed, 1 the logdir cannot be read, 2 a flag is wrong.");
}

int RunLs(const LsFlags& flags) {
  const absl::StatusOr<OpenLocation> open =
      OpenExistingLocation(flags.location, flags.storage_config);
  if (!open.ok()) return Complain(open.status());
  if (flags.objects) return ListObjects(*open, flags.output == "json");
  if (!open->location.run.empty()) return ListOneRun(flags, *open);
  absl::StatusOr<std::vector<std::string>> names = ListRuns(*open->store);
  if (!names.ok()) return Complain(names.status());
  const std::size_t most = flags.all ? names->size() : flags.limit;
  std::vector<RunSummary> runs;
  std::size_t at = 0;
  while (at < names->size() && runs.size() < most) {
    const auto begin = names->begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t some = std::min(most - runs.size(), names->size() - at);
    std::vector<RunSummary> read =
        ReadRuns(*open->store, {begin, begin + static_cast<std::ptrdiff_t>(some)});
    std::erase_if(read, [](const RunSummary& run) { return run.empty; });
    std::move(read.begin(), read.end(), std::back_inserter(runs));
    at += some;
  }
  if (flags.output == "json") {
    std::cout << RunsJson(open->location.logdir, runs);
  } else if (runs.empty()) {
    std::cerr << "no runs in " << open->location.logdir.url() << "\n";
  } else {
    std::cout << RunsTable(runs);
  }
  if (at < names->size())
    std::cerr << names->size() - at << " older runs are not shown; --all shows them\n";
  return kExitOk;
}

}  // namespace strobe::cli
