#include "operator/trigger/trigger_sink.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/trigger/trigger_decision.h"

namespace strobe::trigger {
namespace {

// Entries of memory: at most twice as many are kept, of about 500 bytes each.
constexpr std::size_t kKnownJobs = 2048, kKnownPods = 4096;
// A pod's job does not change, but a later pod may have the same name. A pod that is not there may
// have been created just now.
constexpr Nanos kPodLife = std::chrono::minutes(10), kNoPodLife = std::chrono::seconds(30);
// How long a refusal by access or policies holds without asking again.
constexpr Nanos kRefusalLife = std::chrono::minutes(1);
// Limits on the requests to the API server in a storm; shares.h limits its writes.
constexpr double kReadsPerSecond = 200, kReadBurst = 400;
constexpr Nanos kReadLimit = std::chrono::seconds(5), kStartLimit = std::chrono::seconds(10);

std::string KeyOf(const ProfileTrigger& trigger) { return StrCat(trigger.ns, "/", trigger.name); }

kube::RunRefusal CapturedBy(const std::string& run) {
  return {kAlreadyCaptured, StrCat(run, " was started after the alert began")};
}

}  // namespace

TriggerSink::TriggerSink(Dependencies dependencies)
    : deps_(std::move(dependencies)),
      reads_(kReadsPerSecond, kReadBurst, deps_.clock.MonoNow()),
      remembered_(kKnownJobs),
      pods_(kKnownPods) {}

// One alert at a time asks the server and creates a run, so that those that wait are decided from
// memory afterwards.
class TriggerSink::Slot {
 public:
  Slot(TriggerSink& sink, MonoTime until) : sink_(sink) {
    MutexLock lock(&sink_.mutex_);
    const auto free = [this]()
                          ABSL_NO_THREAD_SAFETY_ANALYSIS { return !sink_.busy_ || !sink_.open_; };
    mine_ = sink_.mutex_.AwaitFor(until - sink_.deps_.clock.MonoNow(), free) && sink_.open_;
    if (mine_) sink_.busy_ = true;
  }
  ~Slot() {
    if (!mine_) return;
    MutexLock lock(&sink_.mutex_);
    sink_.busy_ = false;
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  bool mine() const { return mine_; }

 private:
  TriggerSink& sink_;
  bool mine_ = false;
};

void TriggerSink::Open() {
  MutexLock lock(&mutex_);
  open_ = true;
}

void TriggerSink::Close() {
  MutexLock lock(&mutex_);
  open_ = false;
  mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !busy_; });
}

absl::Status TriggerSink::Take(std::span<const Alert> alerts, MonoTime until) {
  if (!IsOpen()) return absl::UnavailableError("the triggers are not known yet; send it again");
  const auto decided = [this](std::string_view outcome) { deps_.metrics.AlertDecided(outcome); };
  absl::Status first;
  for (const Alert& alert : alerts) {
    if (!alert.firing) {
      deps_.metrics.AlertDecided("Resolved");
      continue;
    }
    const std::vector<Table::Trigger> triggers = deps_.triggers.Matching(alert);
    if (triggers.empty()) deps_.metrics.AlertDecided("Unmatched");
    // A failure must not keep the others from being decided: they may be about other jobs.
    for (const Table::Trigger& trigger : triggers)
      first.Update(Decide(*trigger, alert, until, decided));
  }
  if (first.ok()) return first;
  // One line for all of them, because a storm must not fill the log.
  LogWarning("alerts are sent back, to be sent again", {{"error", MessageOf(first)}});
  return absl::UnavailableError(first.message());
}

absl::Status TriggerSink::TakeSign(const ProfileTrigger& trigger, const Alert& sign,
                                   MonoTime until) {
  if (!IsOpen()) return absl::UnavailableError("the triggers are not known yet; tell it again");
  return Decide(trigger, sign, until, [&](std::string_view outcome) {
    deps_.metrics.SignDecided(NameOfAlert(sign), outcome);
  });
}

bool TriggerSink::IsOpen() {
  MutexLock lock(&mutex_);
  return open_;
}

absl::Status TriggerSink::Decide(const ProfileTrigger& trigger, const Alert& alert, MonoTime until,
                                 const std::function<void(std::string_view)>& decided) {
  Subject subject{trigger, alert};
  const MaybeRefusal judged = Judge(subject, until);
  if (!judged.ok()) {
    decided("Failed");
    return judged.status();
  }
  std::optional<kube::RunRefusal> refusal = *judged;
  decided(refusal ? std::string_view(refusal->reason) : "Taken");
  if (refusal && !alert.sign.empty()) refusal->message += StrCat(" (", alert.sign, ")");
  deps_.notebook.Note(KeyOf(trigger), deps_.clock.WallNow(), refusal ? &*refusal : nullptr,
                      subject.job);
  deps_.noted(KeyOf(trigger));
  // Alertmanager repeats an alert that lasts. A sidecar tells a sign only once, unless it is told
  // to try again.
  const bool again = refusal && refusal->reason == kRunActive && !alert.sign.empty();
  return again ? absl::UnavailableError(refusal->message) : absl::OkStatus();
}

TriggerSink::MaybeRefusal TriggerSink::Judge(Subject& subject, MonoTime until) {
  if (std::optional<kube::RunRefusal> rests = WhyTriggerRests(subject.trigger)) return rests;
  if (std::optional<kube::RunRefusal> past = WhyAlertIsPast(subject.alert, deps_.clock.WallNow()))
    return past;
  ASSIGN_OR_RETURN(std::optional<kube::RunRefusal> unknown, FindJob(subject, until));
  if (unknown) return unknown;
  // In a storm nearly all alerts end here.
  if (std::optional<kube::RunRefusal> known = Recall(subject)) return known;
  const Slot slot(*this, until);
  if (!slot.mine()) return absl::UnavailableError("too many alerts at once");
  if (std::optional<kube::RunRefusal> known = Recall(subject)) return known;
  return JudgeByServer(subject, until);
}

TriggerSink::MaybeRefusal TriggerSink::FindJob(Subject& subject, MonoTime until) {
  AlertTarget target = TargetOfAlert(subject.trigger, subject.alert);
  if (!target.missing.empty()) {
    return kube::RunRefusal{kNoTargetLabel, StrCat("the alert has no label ", target.missing,
                                                   " that names what to capture")};
  }
  subject.target = std::move(target.job);
  if (!target.pod.empty()) {
    ASSIGN_OR_RETURN(subject.target, JobOf(subject.trigger.ns, target.pod, until));
    if (!subject.target) {
      return kube::RunRefusal{kPodNotFound,
                              StrCat("there is no pod ", target.pod, ", so its job is not known")};
    }
  }
  subject.job = subject.target ? job::JobText(*subject.target) : subject.trigger.target_job;
  return std::nullopt;
}

absl::StatusOr<std::optional<kube::JobRef>> TriggerSink::JobOf(const std::string& ns,
                                                               const std::string& pod,
                                                               MonoTime until) {
  const std::string key = StrCat(ns, "/", pod);
  {
    MutexLock lock(&mutex_);
    const CachedPod* known = pods_.Find(key);
    if (known != nullptr && known->until > deps_.clock.MonoNow()) return known->job;
  }
  RETURN_IF_ERROR(MayRead(ns, until));
  const absl::StatusOr<job::PodInfo> found =
      deps_.cluster.ReadPod(ns, pod, std::min(until - deps_.clock.MonoNow(), kReadLimit));
  if (!found.ok() && !absl::IsNotFound(found.status())) return found.status();
  CachedPod known;
  if (found.ok()) known.job = JobOfPod(*found);
  known.until = deps_.clock.MonoNow() + (found.ok() ? kPodLife : kNoPodLife);
  MutexLock lock(&mutex_);
  pods_.Put(key, known);
  return known.job;
}

TriggerSink::MaybeRefusal TriggerSink::JudgeByServer(const Subject& subject, MonoTime until) {
  RETURN_IF_ERROR(MayStart(subject.trigger.ns));
  RETURN_IF_ERROR(MayRead(subject.trigger.ns, until));
  const auto limit = [&] { return std::min(until - deps_.clock.MonoNow(), kReadLimit); };
  ASSIGN_OR_RETURN(const ProfileTrigger stored,
                   deps_.cluster.ReadTrigger(subject.trigger.ns, subject.trigger.name, limit()));
  if (stored.uid != subject.trigger.uid || stored.generation != subject.trigger.generation ||
      stored.deleting)
    return absl::UnavailableError("the trigger has changed; send it again");
  ASSIGN_OR_RETURN(const std::vector<TriggerRun> runs,
                   deps_.cluster.ReadRuns(stored.ns, subject.job, limit()));
  Verdict verdict = DecideCapture(stored, subject.alert, subject.job, runs, deps_.clock.WallNow());
  if (!verdict.refusal) return Start(stored, subject, verdict.number, until);
  Remembered known;
  for (const TriggerRun& run : runs) {
    if (run.trigger_uid != stored.uid || run.job != subject.job || run.created < known.captured)
      continue;
    known.captured = run.created;
    known.run = run.name;
  }
  if (verdict.refused_until) {
    known.refusal = *verdict.refusal;
    known.until = *verdict.refused_until;
  }
  Remember(subject, std::move(known));
  return std::move(verdict.refusal);
}

TriggerSink::MaybeRefusal TriggerSink::Start(const ProfileTrigger& trigger, const Subject& subject,
                                             std::int64_t number, MonoTime until) {
  RETURN_IF_ERROR(TakeStart(trigger.ns, until));
  TriggeredRun run{.name = TriggeredRunName(trigger.name, subject.job, number),
                   .rotation = number - 1,
                   .job = subject.job,
                   .alert = AlertId(subject.alert),
                   .alert_name = NameOfAlert(subject.alert),
                   .sign = subject.alert.sign,
                   .target = subject.target};
  ASSIGN_OR_RETURN(
      std::optional<kube::RunRefusal> refusal,
      deps_.cluster.StartRun(trigger, run, std::min(until - deps_.clock.MonoNow(), kStartLimit)));
  const WallTime now = deps_.clock.WallNow();
  Remembered known;
  if (refusal) {
    GiveStartBack();
    known.refusal = *refusal;
    known.until = now + kRefusalLife;
  } else {
    known.captured = kube::WholeSeconds(now);
    known.run = run.name;
    known.refusal = {policy::kCoolDown, StrCat(run.name, " was started at ", FormatRfc3339(now))};
    known.until = now + trigger.budget.cool_down;
    LogInfo(run.sign.empty() ? "an alert starts a capture" : "a sign starts a capture",
            {{"trigger", KeyOf(trigger)},
             {run.sign.empty() ? "alert" : "sign", run.alert_name},
             {"job", run.job},
             {"request", run.name}});
  }
  Remember(subject, std::move(known));
  return refusal;
}

std::optional<kube::RunRefusal> TriggerSink::Recall(const Subject& subject) {
  MutexLock lock(&mutex_);
  const Remembered* known = remembered_.Find(
      StrCat(subject.trigger.uid, "/", subject.trigger.generation, "/", subject.job));
  if (known == nullptr) return std::nullopt;
  if (!known->run.empty() && kube::WholeSeconds(subject.alert.starts) <= known->captured)
    return CapturedBy(known->run);
  if (known->until > deps_.clock.WallNow() && known->expires_mono > deps_.clock.MonoNow())
    return known->refusal;
  return std::nullopt;
}

void TriggerSink::Remember(const Subject& subject, Remembered known) {
  known.expires_mono = deps_.clock.MonoNow() + (known.until - deps_.clock.WallNow());
  MutexLock lock(&mutex_);
  remembered_.Put(StrCat(subject.trigger.uid, "/", subject.trigger.generation, "/", subject.job),
                  std::move(known));
}

absl::Status TriggerSink::MayStart(const std::string& ns) {
  MutexLock lock(&mutex_);
  if (starts_.MayStart(ns, deps_.clock.MonoNow())) return absl::OkStatus();
  return absl::UnavailableError("too many captures at once");
}

absl::Status TriggerSink::TakeStart(const std::string& ns, MonoTime until) {
  const MonoTime now = deps_.clock.MonoNow();
  if (now >= until) return absl::UnavailableError("there was not enough time");
  MutexLock lock(&mutex_);
  if (starts_.Take(ns, now)) return absl::OkStatus();
  return absl::UnavailableError("too many captures at once");
}

void TriggerSink::GiveStartBack() {
  MutexLock lock(&mutex_);
  starts_.GiveBack();
}

absl::Status TriggerSink::MayRead(const std::string& ns, MonoTime until) {
  const MonoTime now = deps_.clock.MonoNow();
  if (now >= until) return absl::UnavailableError("there was not enough time");
  MutexLock lock(&mutex_);
  if (reads_.Take(ns, now)) return absl::OkStatus();
  return absl::UnavailableError("too many alerts at once");
}

}  // namespace strobe::trigger
