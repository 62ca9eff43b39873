#include "cli/fleet/fleet_command.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "cli/base/common_flags.h"
#include "cli/base/interrupts.h"
#include "cli/base/open_location.h"
#include "cli/fleet/fleet_run.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "common/text/safe_text.h"

namespace strobe::cli {
namespace {

// After a signal, what was written of a run must be deleted within this time.
constexpr auto kUndoTime = std::chrono::seconds(15);

// A folder of this process, which is removed at the end.
class ScratchRoot {
 public:
  static absl::StatusOr<std::unique_ptr<ScratchRoot>> Create(const std::string& parent) {
    std::error_code error;
    std::string path =
        parent.empty() ? std::filesystem::temp_directory_path(error).native() : parent;
    path += "/strobe-fleet-XXXXXX";
    if (mkdtemp(path.data()) == nullptr)
      return absl::ErrnoToStatus(errno, StrCat("cannot make the directory ", path));
    return std::make_unique<ScratchRoot>(path);
  }
  explicit ScratchRoot(std::string path) : path_(std::move(path)) {}
  ~ScratchRoot() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  ScratchRoot(const ScratchRoot&) = delete;
  ScratchRoot& operator=(const ScratchRoot&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// The runs of this process's share, oldest first: their traces are complete.
absl::StatusOr<std::vector<std::string>> OwnRuns(const OpenLocation& from,
                                                 const FleetShare& share) {
  if (!from.location.run.empty())
    return absl::InvalidArgumentError("give a logdir; strobe convert makes tables of a single run");
  ASSIGN_OR_RETURN(std::vector<std::string> runs, ListRuns(*from.store));
  std::erase_if(runs, [&](const std::string& run) { return !IsOfShare(share, run); });
  runs = FirstRuns(*from.store, runs, runs.size());
  return std::vector<std::string>(runs.rbegin(), runs.rend());
}

struct FleetTotals {
  std::vector<FleetRun> runs{};
  std::size_t done_before = 0;
  bool damaged = false, failed = false, interrupted = false;
};

void ConvertAll(const FleetFlags& flags, const FleetLocations& locations,
                const std::vector<std::string>& runs, const Cancellation& stop,
                FleetTotals& totals) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if ((totals.interrupted = stop.cancelled())) return;
    FleetResult result = ConvertFleetRun(locations, runs[i], !flags.no_stats, stop);
    if ((totals.interrupted = !result.status.ok() && stop.cancelled())) return;
    if (!result.status.ok()) (IsHopeless(result.status) ? totals.damaged : totals.failed) = true;
    if (!flags.quiet)
      std::cerr << StrCat(
          i + 1, "/", runs.size(), " ", WithoutControls(runs[i]), ": ",
          result.done_before ? "done before" : WithoutControls(FleetRunText(result.row)), "\n");
    if (result.done_before)
      ++totals.done_before;
    else
      totals.runs.push_back(std::move(result.row));
  }
}

absl::StatusOr<FleetTotals> ConvertShare(const FleetFlags& flags, const Cancellation& stop) {
  if (flags.share.index >= flags.share.of)
    return absl::InvalidArgumentError(
        StrCat("there is no share ", flags.share.index, " of ", flags.share.of));
  const storage::StoreLimits limits{.cancellation = &stop};
  ASSIGN_OR_RETURN(const OpenLocation from,
                   OpenExistingLocation(flags.location, flags.storage_config, limits));
  ASSIGN_OR_RETURN(const OpenLocation to, OpenRunLocation(flags.out, flags.storage_config, limits));
  if (!to.location.run.empty())
    return absl::InvalidArgumentError(
        "tables cannot be written into a run; give another directory");
  ASSIGN_OR_RETURN(const std::vector<std::string> runs, OwnRuns(from, flags.share));
  ASSIGN_OR_RETURN(const std::unique_ptr<ScratchRoot> scratch, ScratchRoot::Create(flags.scratch));
  std::unique_ptr<storage::Stores> undo_stores;  // Outlives the stores that it opened.
  const auto open_to_undo = [&]() -> absl::StatusOr<std::unique_ptr<storage::ObjectStore>> {
    ASSIGN_OR_RETURN(OpenLocation again,
                     OpenRunLocation(flags.out, flags.storage_config,
                                     {.deadline = SystemClock().MonoNow() + kUndoTime}));
    undo_stores = std::move(again.stores);
    return std::move(again.store);
  };
  FleetTotals totals;
  ConvertAll(flags,
             {.logdir = storage::AbsoluteLocation(flags.location),
              .from = from.store.get(),
              .to = to.store.get(),
              .open_to_undo = open_to_undo,
              .storage_config = flags.storage_config,
              .scratch = scratch->path()},
             runs, stop, totals);
  return totals;
}

int PrintJob(const FleetFlags& flags) {
  cluster::FleetJobOptions options = flags.job;
  options.logdir = flags.location;
  options.out = flags.out;
  options.stats = !flags.no_stats;
  options.hopeless_exit_codes = {kExitWrongFlags, cluster::kExitBadRuns};
  const absl::StatusOr<nlohmann::ordered_json> job = cluster::MakeFleetJob(options);
  if (!job.ok()) return Complain(job.status());
  std::cout << JsonText(*job, 2) << "\n";
  return kExitOk;
}

void AddJobFlags(CLI::App& command, FleetFlags& flags) {
  cluster::FleetJobOptions& job = flags.job;
  const std::string group = "Job (with --image, nothing is converted here)";
  command
      .add_option("--image", job.image,
                  "print a Job with this image, for kubectl apply -f -, instead of converting here")
      ->group(group);
  const auto add = [&](const char* name, auto& value, const char* about) {
    return command.add_option(name, value, about)->capture_default_str()->group(group);
  };
  add("--name", job.name, "the Job's name");
  add("--workers", job.workers, "number of pods; each converts one share of the runs")
      ->check(CLI::Range(1, 100'000));
  add("--at-once", job.at_once, "how many pods run at the same time; 0 = all")
      ->check(CLI::Range(0, 100'000));
  add("--service-account", job.service_account, "of the pods, for workload identity");
  add("--secret", job.secrets, "a Secret whose keys become environment variables");
  add("--claim", job.claims, "CLAIM:/path: a PersistentVolumeClaim and where it is mounted");
  add("--cpu", job.cpu, "CPU request of a pod; it uses one core");
  add("--memory", job.memory, "memory request and limit of a pod");
  add("--disk", job.disk, "disk of a pod, for the tables of one run at a time");
}

}  // namespace

void AddFleetFlags(CLI::App& command, FleetFlags& flags) {
  command.add_option("logdir", flags.location, "the logdir whose runs are converted")->required();
  command.add_option("--to", flags.to, "the tables of docs/reference/tables.md")
      ->capture_default_str()
      ->check(CLI::IsMember({"parquet"}));
  command
      .add_option("-o,--out", flags.out, "folder or URL (file, s3, gs, az) for tables and reports")
      ->type_name("URL")
      ->required();
  command.add_flag("--no-stats", flags.no_stats, "leave out the events' stats, the largest table");
  command.add_option("--of", flags.share.of, "number of shares of the runs")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  command.add_option("--index", flags.share.index, "the share to convert, from 0")
      ->capture_default_str()
      ->envname("JOB_COMPLETION_INDEX");
  command.add_option("--scratch", flags.scratch,
                     "folder for the tables of one run at a time [the system's temporary one]");
  command.add_flag("--quiet", flags.quiet, "print no line per run");
  AddJobFlags(command, flags);
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "Skips runs that are converted already, unless their traces have changed. A run's tables are "
      "complete when its row is in the table runs.\n"
      "Examples:\n"
      "  strobe fleet /nfs/logs --to parquet --out /nfs/tables\n"
      "  strobe fleet s3://bucket/logs --to parquet --out s3://bucket/tables --workers 64 \\\n"
      "    --image registry.example.com/strobe-viewer:1.0 --service-account traces |\n"
      "    kubectl apply -n ml -f -\n"
      "Exit code: 0 all runs are done, 1 not all and trying again may help, 2 a flag is wrong, 3 "
      "traces of some runs are damaged and all others are done.");
}

int RunFleet(const FleetFlags& flags) {
  if (!flags.job.image.empty()) return PrintJob(flags);
  const StopAtSignal signals;
  const absl::StatusOr<FleetTotals> totals = ConvertShare(flags, signals.stop());
  if (!totals.ok()) return Complain(totals.status());
  std::cout << FleetSummary(totals->runs, totals->done_before);
  if (totals->interrupted) {
    std::cerr << "interrupted; repeat the command to continue with the remaining runs\n";
    return kExitFailed;
  }
  if (totals->failed) return kExitFailed;
  return totals->damaged ? cluster::kExitBadRuns : kExitOk;
}

}  // namespace strobe::cli
