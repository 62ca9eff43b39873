#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "absl/strings/str_format.h"
#include "cli/base/common_flags.h"
#include "cli/base/open_location.h"
#include "cli/base/progress_text.h"
#include "cli/base/report_table.h"
#include "cli/base/stop_at_signal.h"
#include "cli/runs/copy_run.h"
#include "cli/runs/logdir_commands.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

// Shows "[=======>      ]  48%  1.02 GB of 2.15 GB  310 MB/s  <run>" if stderr is a terminal.
class ProgressBar {
 public:
  ProgressBar(std::string label, bool quiet)
      : label_(std::move(label)), show_(!quiet && isatty(STDERR_FILENO) == 1), line_(!show_) {}
  ~ProgressBar() { line_.Clear(); }
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
    const std::string empty(kWidth - filled - (filled < kWidth ? 1 : 0), ' ');
    line_.Show(StrCat("[", std::string(filled, '='), filled < kWidth ? ">" : "", empty, "] ",
                      absl::StrFormat("%3.0f%%", 100 * part), "  ", FormatBytes(progress.done),
                      " of ", FormatBytes(progress.all), "  ", FormatBytes(rate), "/s  ", label_));
  }

 private:
  const SystemClock clock_;
  const std::string label_;
  const bool show_;
  ProgressText line_;
  const MonoTime began_ = clock_.MonoNow();
  MonoTime shown_{};
};

}  // namespace

void AddCpFlags(CLI::App& command, CpFlags& flags) {
  command.add_option("from", flags.from, "URL of a run, or a logdir with --run or --all")
      ->required();
  command.add_option("to", flags.to, "the logdir to copy to; runs keep their names")->required();
  AddRunChoiceFlags(command, flags.choice);
  command.add_flag("--quiet", flags.quiet, "show no progress");
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "Traces must have the checksums in the run's strobe.json. Objects that the target already "
      "has "
      "are\nleft alone, so a copy that was interrupted can be repeated. An object with other bytes "
      "is "
      "never\noverwritten.\n"
      "Examples:\n"
      "  strobe cp s3://bucket/logs/plugins/profile/2026_11_21_08_30_00_bench /tmp/logs\n"
      "  strobe cp gs://bucket/logs az://archive/logs --run 2026_11_21_08_30_00_bench\n"
      "Exit code: 0 copied, 1 not or not all of it copied, 2 a flag is wrong.");
}

int RunCp(const CpFlags& flags) {
  // A signal ends the reading. The target still works then, to remove what is not complete.
  const StopAtSignal signals;
  const absl::StatusOr<OpenLocation> from =
      OpenRunLocation(flags.from, flags.storage_config, {.cancellation = &signals.stop()});
  if (!from.ok()) return Complain(from.status());
  const absl::StatusOr<OpenLocation> to = OpenRunLocation(flags.to, flags.storage_config);
  if (!to.ok()) return Complain(to.status());
  if (!to->location.run.empty()) {
    return Complain(
        absl::InvalidArgumentError("the target must be a logdir, not a run: a run keeps its name"));
  }
  const absl::StatusOr<std::vector<std::string>> runs =
      ChooseRuns(*from->store, from->location.run, flags.choice, SystemClock().WallNow());
  if (!runs.ok()) return Complain(runs.status());
  if (runs->empty()) std::cerr << "nothing to copy\n";
  int code = kExitOk;
  for (const std::string& run : *runs) {
    const bool named = run == from->location.run ||
                       std::ranges::find(flags.choice.runs, run) != flags.choice.runs.end();
    // A folder without files is no run.
    if (!named && !storage::HasFiles(*from->store, storage::RunPrefix(run)).value_or(true))
      continue;
    absl::StatusOr<CopyTotals> totals;
    {
      ProgressBar bar(run, flags.quiet);
      totals = CopyRun(*from->store, *to->store, run,
                       [&](const CopyProgress& progress) { bar.Show(progress); });
    }
    if (!totals.ok()) {
      // The other runs may be better.
      code = Complain(totals.status());
      if (IsFaultOfRun(totals.status())) continue;
      return code;
    }
    if (!flags.quiet) {
      std::cout << to->location.logdir.RunUrl(run) << ": " << totals->objects << " objects, "
                << FormatBytes(totals->bytes) << "\n";
    }
  }
  return code;
}

}  // namespace strobe::cli
