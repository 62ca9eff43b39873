#include <unistd.h>

#include <chrono>
#include <iostream>

#include "absl/strings/str_format.h"
#include "cli/copy_run.h"
#include "cli/logdir_commands.h"
#include "cli/open_place.h"
#include "cli/report_table.h"
#include "cli/storage_flags.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

// "[=======>      ]  48%  1.02 GB of 2.15 GB  310 MB/s  <run>", on a terminal only.
class ProgressBar {
 public:
  ProgressBar(std::string label, bool quiet)
      : label_(std::move(label)), show_(!quiet && isatty(STDERR_FILENO) == 1) {}
  ~ProgressBar() {
    if (show_) std::cerr << "\r\033[K";
  }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Show(const CopyProgress& progress) {
    const MonoTime now = clock_.MonoNow();
    if (!show_ || now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    constexpr std::size_t kWidth = 24;
    const double part =
        progress.all == 0 ? 1
                          : static_cast<double>(progress.done) / static_cast<double>(progress.all);
    const auto filled = static_cast<std::size_t>(part * kWidth);
    const std::chrono::duration<double> took = now - began_;
    const auto rate = static_cast<std::uint64_t>(static_cast<double>(progress.done) /
                                                 std::max(took.count(), 0.1));
    std::cerr << "\r\033[K[" << std::string(filled, '=') << (filled < kWidth ? ">" : "")
              << std::string(kWidth - filled - (filled < kWidth ? 1 : 0), ' ') << "] "
              << absl::StrFormat("%3.0f%%", 100 * part) << "  " << FormatBytes(progress.done)
              << " of " << FormatBytes(progress.all) << "  " << FormatBytes(rate) << "/s  "
              << label_ << std::flush;
  }

 private:
  const SystemClock clock_;
  const std::string label_;
  const bool show_;
  const MonoTime began_ = clock_.MonoNow();
  MonoTime shown_{};
};

}  // namespace

void AddCpFlags(CLI::App& command, CpFlags& flags) {
  command.add_option("from", flags.from, "URL of a run, or a logdir with --run or --all")
      ->required();
  command.add_option("to", flags.to, "logdir that gets the run under its own name")->required();
  command.add_option("--run", flags.runs, "name of a run of the logdir; may be given many times");
  command.add_flag("--all", flags.all, "all runs of the logdir");
  command.add_flag("--quiet", flags.quiet, "no progress");
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "Checksums of strobe.json are verified. What is there already with the same bytes is left\n"
      "alone, so a copy that was cut can be begun again; other bytes are never overwritten.\n"
      "Examples:\n"
      "  strobe cp s3://bucket/logs/plugins/profile/2026_11_21_08_30_00_bench /tmp/logs\n"
      "  strobe cp gs://bucket/logs az://archive/logs --run 2026_11_21_08_30_00_bench\n"
      "Exit code: 0 copied, 1 not or not all, 2 a flag is wrong.");
}

int RunCp(const CpFlags& flags) {
  const auto stores = CommandStores(flags.storage_config);
  if (!stores.ok()) return Complain(stores.status());
  const absl::StatusOr<OpenPlace> from = OpenRunPlace(**stores, flags.from);
  if (!from.ok()) return Complain(from.status());
  const absl::StatusOr<OpenPlace> to = OpenRunPlace(**stores, flags.to);
  if (!to.ok()) return Complain(to.status());
  if (!to->place.run.empty()) {
    return Complain(
        absl::InvalidArgumentError("the target must be a logdir, not a run: a run keeps its name"));
  }
  std::vector<std::string> runs = flags.runs;
  if (!from->place.run.empty()) runs.push_back(from->place.run);
  if (flags.all) {
    absl::StatusOr<std::vector<std::string>> found = ListRuns(*from->store);
    if (!found.ok()) return Complain(found.status());
    runs = *std::move(found);
  }
  if (runs.empty()) {
    return Complain(absl::InvalidArgumentError(
        "say which run: give the run's URL, --run NAME or --all; strobe ls lists them"));
  }
  for (const std::string& run : runs) {
    absl::StatusOr<CopyTotals> totals;
    {
      ProgressBar bar(run, flags.quiet);
      totals = CopyRun(*from->store, *to->store, run,
                       [&](const CopyProgress& progress) { bar.Show(progress); });
    }
    if (!totals.ok()) return Complain(totals.status());
    if (!flags.quiet) {
      std::cout << to->place.logdir.RunUrl(run) << ": " << totals->objects << " objects, "
                << FormatBytes(totals->bytes) << "\n";
    }
  }
  return 0;
}

}  // namespace strobe
