#include "cli/capture/capture_command.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "capture/attempt.h"
#include "capture/attempt_result.h"
#include "capture/report_thread.h"
#include "capture/worker/grpc_worker.h"
#include "cli/base/common_flags.h"
#include "cli/base/interrupts.h"
#include "cli/base/open_location.h"
#include "cli/base/progress.h"
#include "cli/base/report_table.h"
#include "cli/capture/addresses.h"
#include "cli/capture/local_worker.h"
#include "cli/capture/server_saves.h"
#include "collector/store/stores.h"
#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

// The first Ctrl-C ends the recording and keeps it, as other recorders do. The second one, or
// SIGTERM, cancels the capture. The third one exits at once.
constexpr int kEndEarly = 1, kCancel = 2;

void ShowProgress(const capture::AttemptProgress& progress, int attempt, WallTime now,
                  ProgressText& line) {
  std::string text = StrCat("attempt ", attempt, ": ", capture::Name(progress.phase), ", ",
                            progress.armed, "/", progress.matched, " armed");
  if (progress.phase == capture::Phase::kDelay && progress.plan) {
    const auto& steps = progress.plan->steps;
    text += StrCat(", starts ",
                   steps ? StrCat("at step ", steps->first, " of ", steps->loop, ", about ") : "",
                   "in ", FormatDuration(std::max(progress.plan->instant - now, Nanos{0})));
  }
  if (!progress.waits_for.empty()) text += StrCat(", ", progress.waits_for);
  if (progress.finished > 0) text += StrCat(", ", progress.finished, " ended");
  line.Show(text, StrCat(attempt, capture::Name(progress.phase), progress.waits_for));
}

// Shows the progress on stderr: as a line for the user, or as events for a program.
class CaptureProgress {
 public:
  explicit CaptureProgress(const CaptureFlags& flags)
      : quiet_(flags.quiet), events_(flags.progress == "json"), line_(quiet_ || events_) {}

  void Show(const capture::AttemptProgress& progress, int attempt, WallTime now) {
    if (!events_) return ShowProgress(progress, attempt, now, line_);
    std::string event = ProgressEvent(progress, attempt);
    if (event == shown_) return;
    Write(event);
    shown_ = std::move(event);
  }
  void ShowRetry(int attempt, const std::string& message, Nanos wait) {
    Clear();
    Write(events_
              ? RetryEvent(attempt, message)
              : StrCat("attempt ", attempt, ": ", message, "; again in ", FormatDuration(wait)));
  }
  void Clear() { line_.Clear(); }

 private:
  void Write(const std::string& text) {
    if (!quiet_) std::cerr << text << "\n";
  }

  const bool quiet_, events_;
  ProgressText line_;
  std::string shown_;  // The last event.
};

// Runs one attempt to its end and passes the user's interrupts on to it.
std::shared_ptr<const capture::AttemptResult> RunAttempt(
    capture::Attempt::Dependencies deps, const capture::Spec& spec, int number,
    const std::vector<capture::Target>& targets, const Interrupts& interrupts,
    CaptureProgress& shown) {
  const auto attempt = capture::Attempt::Start(deps, spec, number, targets, [] {});
  while (true) {
    const capture::AttemptProgress progress = attempt->progress();
    if (progress.phase == capture::Phase::kDone) return progress.result;
    shown.Show(progress, number, deps.clock.WallNow());
    if (interrupts.count() == kEndEarly) attempt->EndEarly();
    if (interrupts.count() >= kCancel) attempt->Cancel("interrupted");
    usleep(20'000);
  }
}

}  // namespace

int RunCapture(const CaptureFlags& flags) {
  if (!flags.insecure_plaintext) {
    return Complain(absl::InvalidArgumentError(
        "strobe capture has no certificates and talks to workers without TLS; pass "
        "--insecure-plaintext to accept that"));
  }
  absl::StatusOr<std::vector<capture::Target>> targets = ParseWorkers(flags.workers);
  if (!targets.ok()) return Complain(targets.status());
  for (capture::Target& target : *targets) {
    target.ranks = flags.ranks;
    target.local_ranks = flags.local_ranks;
  }
  const SystemClock clock;
  absl::StatusOr<capture::Spec> spec = ParseCaptureFlags(flags, targets->size(), clock.WallNow());
  if (!spec.ok()) return Complain(spec.status());
  if (const absl::Status roles = SetRoles(flags, *targets, *spec); !roles.ok())
    return Complain(roles);
  if (SavedByServers(flags)) return RunServerSaves(flags, *spec, *targets, clock);

  const absl::StatusOr<storage::StorageConfig> config =
      storage::ReadStorageConfig(flags.storage_config);
  if (!config.ok()) return Complain(config.status());
  const Interrupts interrupts(kCancel);
  storage::Stores stores(*config, storage::UrlOptions::kAll);
  capture::GrpcWorkerConnector sidecars(clock, capture::PlaintextCredentials);
  MixedConnector workers(clock, stores, sidecars, flags.risks);
  ThreadExecutor executor;
  capture::ReportThread reporter(clock);
  CaptureProgress shown(flags);
  std::shared_ptr<const capture::AttemptResult> result;
  for (int attempt = 1;; ++attempt) {
    result = RunAttempt(
        {.clock = clock, .executor = executor, .workers = workers, .reporter = &reporter}, *spec,
        attempt, *targets, interrupts, shown);
    const std::optional<Nanos> wait = capture::RetryAfter(*spec, *result);
    if (!wait || interrupts.count() > 0) break;
    shown.ShowRetry(attempt, result->message, *wait);
    Pause(*wait, interrupts, 0);
    if (interrupts.count() > 0) break;  // This attempt's failure is what the user is told.
  }
  shown.Clear();
  if (flags.output == "json") {
    const absl::StatusOr<std::string> json =
        capture::ManifestJson(capture::ComposeManifest(*spec, *result));
    if (!json.ok()) return Complain(json.status());
    std::cout << *json;
  } else {
    std::cout << RenderTable(*spec, *result);
  }
  if (result->succeeded) return kExitOk;
  std::cerr << (result->cancelled ? "Cancelled: " : "Unavailable: ") << result->message << "\n";
  return kExitFailed;
}

}  // namespace strobe::cli
