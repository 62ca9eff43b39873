#include <iostream>

#include "cli/logdir_commands.h"
#include "cli/open_place.h"
#include "cli/runs.h"
#include "cli/storage_flags.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

// As they come: a logdir may have millions.
int ListObjects(const OpenPlace& open) {
  const std::string prefix = open.place.run.empty() ? "" : RunPrefix(open.place.run);
  const absl::Status status = open.store->List(prefix, [](const StoredObject& object) {
    std::cout << object.bytes << '\t' << object.key << '\n';
    return static_cast<bool>(std::cout);
  });
  std::cout.flush();
  return status.ok() ? 0 : Complain(status);
}

int ListOneRun(const LsFlags& flags, const OpenPlace& open) {
  const absl::StatusOr<std::vector<StoredObject>> objects =
      ListAll(*open.store, RunPrefix(open.place.run));
  if (!objects.ok()) return Complain(objects.status());
  if (objects->empty()) {
    return Complain(
        absl::NotFoundError(StrCat("there is no run ", open.place.logdir.RunUrl(open.place.run))));
  }
  const RunSummary run = ReadRun(*open.store, open.place.run);
  std::cout << (flags.output == "json" ? RunsJson(open.place.logdir, {run})
                                       : RunTable(run, *objects));
  return 0;
}

}  // namespace

void AddLsFlags(CLI::App& command, LsFlags& flags) {
  command.add_option("logdir", flags.place, "a logdir, or the URL of one of its runs")->required();
  command.add_option("--limit", flags.limit, "only so many runs, the newest")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command.add_flag("--all", flags.all, "all runs");
  command.add_flag("--objects", flags.objects, "every object with its bytes instead of the runs");
  command.add_option("--output", flags.output, "table or json")
      ->capture_default_str()
      ->check(CLI::IsMember({"table", "json"}));
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "Examples:\n"
      "  strobe ls gs://my-bucket/logs\n"
      "  strobe ls 's3://my-bucket/logs?endpoint=https://minio.example:9000' --all --output json\n"
      "  strobe ls /nfs/logs/plugins/profile/2026_11_21_08_30_00_bench   # one run\n"
      "Exit code: 0 listed, 1 the store did not let us, 2 a flag is wrong.");
}

int RunLs(const LsFlags& flags) {
  const auto stores = CommandStores(flags.storage_config);
  if (!stores.ok()) return Complain(stores.status());
  const absl::StatusOr<OpenPlace> open = OpenRunPlace(**stores, flags.place);
  if (!open.ok()) return Complain(open.status());
  if (flags.objects) return ListObjects(*open);
  if (!open->place.run.empty()) return ListOneRun(flags, *open);
  absl::StatusOr<std::vector<std::string>> names = ListRuns(*open->store);
  if (!names.ok()) return Complain(names.status());
  const std::size_t found = names->size();
  if (!flags.all && found > flags.limit) names->resize(flags.limit);
  const std::vector<RunSummary> runs = ReadRuns(*open->store, *names);
  if (flags.output == "json") {
    std::cout << RunsJson(open->place.logdir, runs);
  } else if (runs.empty()) {
    std::cerr << "no runs in " << open->place.logdir.url() << "\n";
  } else {
    std::cout << RunsTable(runs);
  }
  if (found > runs.size())
    std::cerr << found - runs.size() << " older runs are not shown; --all shows them\n";
  return 0;
}

}  // namespace strobe
