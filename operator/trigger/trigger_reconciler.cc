#include "operator/trigger/trigger_reconciler.h"

#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/trigger/trigger_decision.h"

namespace strobe::trigger {
namespace {

// The rate of status writes for all triggers together, each with at most two events.
constexpr double kStatusesPerSecond = 1, kStatusBurst = 5;
constexpr std::size_t kWrittenTriggers = 1024;

}  // namespace

Reconciler::Reconciler(const Clock& clock, Cluster& cluster, Notebook& notebook,
                       std::function<bool()> leads)
    : clock_(clock),
      cluster_(cluster),
      notebook_(notebook),
      leads_(std::move(leads)),
      writes_(kStatusesPerSecond, kStatusBurst, clock.MonoNow()),
      written_(kWrittenTriggers) {}

absl::StatusOr<kube::ReconcileResult> Reconciler::Reconcile(const std::string& key) {
  Notes notes = notebook_.Take(key);
  const absl::StatusOr<ProfileTrigger> found = cluster_.GetTrigger(key);
  if (absl::IsNotFound(found.status())) return kube::ReconcileResult{};
  if (found.ok()) {
    // Its runs are deleted with it, by their owner reference.
    if (found->deleting || (notes.empty() && !leads_())) return kube::ReconcileResult{};
    absl::StatusOr<kube::ReconcileResult> result = ReconcileNoted(*found, notes);
    notebook_.PutBack(key, notes);
    return result;
  }
  notebook_.PutBack(key, notes);
  return found.status();
}

// Clears the notes once they are written.
absl::StatusOr<kube::ReconcileResult> Reconciler::ReconcileNoted(const ProfileTrigger& trigger,
                                                                 Notes& notes) {
  // Only the leader removes runs, so only it needs to know which ones policies keep. It also keeps
  // the seal valid.
  const bool leads = leads_();
  const Decision decision =
      DecideTrigger(trigger, cluster_.RunsOf(trigger), notes,
                    leads ? cluster_.BoundsOf(trigger.ns) : std::nullopt, clock_.WallNow());
  if (decision.status != trigger.status) {
    if (const std::optional<Nanos> wait = WaitToWrite(trigger.uid))
      return kube::ReconcileResult{*wait};
    RETURN_IF_ERROR(cluster_.WriteStatus(trigger, decision.status));
    NoteWritten(trigger.uid);
    Tell(trigger, decision.status, std::exchange(notes, {}));
  }
  if (!leads) return kube::ReconcileResult{};
  for (const kube::CreatedRun& run : decision.remove)
    RETURN_IF_ERROR(cluster_.DeleteRun(trigger, run));
  return kube::ReconcileResult{request::Sooner(decision.look_again, cluster_.KeepSealed(trigger))};
}

// Called after the status was written, so that each change is reported only once.
void Reconciler::Tell(const ProfileTrigger& trigger, const TriggerStatus& status,
                      const Notes& notes) {
  const std::int64_t taken = status.taken - trigger.status.taken;
  if (taken > 0 && status.last_capture) {
    const LastCapture& last = *status.last_capture;
    cluster_.RecordEvent(
        trigger, /*warning=*/false, "CaptureStarted", "Start",
        StrCat(last.sign.empty() ? "the alert " : "the sign ", last.alert, " started ", last.run,
               " of ", last.job, last.sign.empty() ? "" : StrCat(" (", last.sign, ")"),
               taken > 1 ? StrCat("; ", taken - 1, " more were started before") : ""));
  }
  if (status.last_stall && status.last_stall != trigger.status.last_stall &&
      !status.last_stall->repeated.empty()) {
    cluster_.RecordEvent(
        trigger, /*warning=*/true, "SameCulprit", "Compare",
        StrCat(status.last_stall->job, " is held up by ", status.last_stall->repeated));
  }
  if (notes.last_skip) {
    const SkippedAlert& skip = *notes.last_skip;
    cluster_.RecordEvent(
        trigger, /*warning=*/true, "AlertSkipped", "Skip",
        StrCat("an alert or sign", skip.job.empty() ? "" : StrCat(" for ", skip.job),
               " started nothing: ", skip.reason, ": ", skip.message));
  }
}

std::optional<Nanos> Reconciler::WaitToWrite(const std::string& uid) {
  MutexLock lock(&mutex_);
  const MonoTime now = clock_.MonoNow();
  const MonoTime* last = written_.Find(uid);
  if (last != nullptr && now - *last < kTriggerStatusPause)
    return *last + kTriggerStatusPause - now;
  writes_.Refill(now);
  if (!writes_.Take()) return kTriggerStatusDelay;
  return std::nullopt;
}

void Reconciler::NoteWritten(const std::string& uid) {
  MutexLock lock(&mutex_);
  written_.Put(uid, clock_.MonoNow());
}

}  // namespace strobe::trigger
