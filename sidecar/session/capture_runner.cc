#include "sidecar/session/capture_runner.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "common/base/duration.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "sidecar/session/job_guard.h"
#include "sidecar/session/step_progress.h"
#include "sidecar/session/trace_file.h"
#include "sidecar/session/trace_report.h"
#include "sidecar/session/worker_reports.h"

namespace strobe::session {
namespace {

// How often the processes are asked how far their steps are.
constexpr Nanos kLookAtStepsAtMost = std::chrono::milliseconds(10),
                kLookAtStepsAtLeast = std::chrono::seconds(1);

Outcome OutcomeOf(const absl::Status& upload) {
  switch (upload.code()) {
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return Outcome::kUploadDenied;
    case absl::StatusCode::kCancelled:
      return Outcome::kCancelled;
    default:
      return Outcome::kUploadFailed;
  }
}

// Counts the wall clock's steps since the operator measured it, or from now on if the plan does not
// contain the measurement. The upper limit keeps forged values from overflowing later sums.
ClockSteps StepsSince(const Clock& clock, const v1::CapturePlan& plan) {
  constexpr std::int64_t kMaxDifference = std::int64_t{1} << 62;
  const std::int64_t measured = plan.wall_less_monotonic_ns();
  return measured <= 0 || measured > kMaxDifference ? ClockSteps(clock)
                                                    : ClockSteps(clock, Nanos{measured});
}

}  // namespace

// Measures how long each stage of a capture takes.
class CaptureRunner::Stopwatch {
 public:
  explicit Stopwatch(const Clock& clock) : clock_(clock), stage_(clock.MonoNow()) {}
  // The time since the last call, in ns.
  std::int64_t Lap() {
    const MonoTime now = clock_.MonoNow();
    return (now - std::exchange(stage_, now)).count();
  }

 private:
  const Clock& clock_;
  MonoTime stage_;
};

CaptureRunner::CaptureRunner(const Clock& clock, Source& source, Delivery& delivery,
                             std::function<void(const v1::Report&)> ended, JobMonitor* monitor)
    : clock_(clock),
      source_(source),
      delivery_(delivery),
      ended_(std::move(ended)),
      monitor_(monitor),
      thread_([this] { Run(); }) {}

CaptureRunner::~CaptureRunner() {
  Cancel(holder(), "the sidecar is ending");
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

v1::ArmResponse CaptureRunner::Arm(const v1::CapturePlan& plan, Delivery* delivery) {
  v1::ArmResponse response;
  MutexLock lock(&mutex_);
  const bool known = session_.Find(plan.capture_id()) != nullptr;
  if (draining_ && !known) {
    response.set_refusal(v1::UNREACHABLE);
    response.set_message("the sidecar is ending");
    return response;
  }
  Delivery& target = delivery != nullptr ? *delivery : delivery_;
  if (!known && session_.holder().empty()) {
    if (const absl::Status room = target.Room(plan); !room.ok()) {
      response.set_refusal(v1::SPOOL_FULL);
      response.set_message(MessageOf(room));
      return response;
    }
  }
  const ClockSteps steps = StepsSince(clock_, plan);
  const ArmDecision decision = session_.Arm(plan, clock_.WallNow() - steps.Since());
  response.set_accepted(decision.accepted);
  if (!decision.accepted) {
    response.set_refusal(static_cast<v1::Outcome>(decision.refusal));
    response.set_message(decision.message);
    return response;
  }
  if (decision.fresh) {
    live_ = std::make_shared<Live>(steps);
    live_->delivery = &target;
  }
  *response.mutable_report() = *session_.Find(plan.capture_id());
  return response;
}

void CaptureRunner::Restore(std::vector<v1::Report> reports) {
  // The newest capture that can be resumed becomes the live one again, so that its client can watch
  // it. The others count as ended; the spool retries their traces in the background.
  const auto resumed = std::find_if(reports.rbegin(), reports.rend(), [this](const auto& report) {
    return delivery_.CanResume(report);
  });
  std::optional<v1::Report> live;
  if (resumed != reports.rend()) {
    live = *resumed;
    reports.erase(std::next(resumed).base());
  }
  for (v1::Report& report : reports) {
    if (report.state() != v1::DONE) {
      const bool safe = delivery_.CanResume(report);
      EndUndelivered(safe ? Outcome::kUploadFailed : Outcome::kWorkerLost,
                     safe ? "the sidecar was restarted; the trace is kept in its spool"
                          : "the sidecar was restarted and the trace was lost",
                     report);
      delivery_.Ended(report);
    }
    MutexLock lock(&mutex_);
    session_.Restore(std::move(report));
  }
  if (!live) return;
  MutexLock lock(&mutex_);
  session_.Restore(*std::move(live));
  live_ = std::make_shared<Live>(ClockSteps(clock_));
  live_->delivery = &delivery_;
}

std::optional<v1::Report> CaptureRunner::Find(std::string_view capture_id) const {
  MutexLock lock(&mutex_);
  const v1::Report* report = session_.Find(capture_id);
  return report == nullptr ? std::nullopt : std::optional(*report);
}

std::optional<v1::Report> CaptureRunner::WaitForChange(std::string_view capture_id,
                                                       v1::CaptureState known,
                                                       Nanos timeout) const {
  MutexLock lock(&mutex_);
  const auto changed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const v1::Report* report = session_.Find(capture_id);
    return stopping_ || report == nullptr || report->state() != known;
  };
  mutex_.AwaitFor(timeout, changed);
  const v1::Report* report = session_.Find(capture_id);
  return report == nullptr ? std::nullopt : std::optional(*report);
}

bool CaptureRunner::Cancel(std::string_view capture_id, std::string_view reason) {
  MutexLock lock(&mutex_);
  if (session_.Find(capture_id) == nullptr) return false;
  if (live_ != nullptr && session_.holder() == capture_id) {
    if (live_->reason.empty()) live_->reason = std::string(reason);
    live_->cancel.Cancel();
  }
  return true;
}

bool CaptureRunner::Terminate(std::string_view capture_id) {
  MutexLock lock(&mutex_);
  if (live_ == nullptr || session_.holder() != capture_id) return false;
  if (!live_->terminated_at) live_->terminated_at = clock_.MonoNow();
  live_->terminate.Cancel();
  return true;
}

std::string CaptureRunner::holder() const {
  MutexLock lock(&mutex_);
  return session_.holder();
}

Nanos CaptureRunner::WorstLateness() const {
  MutexLock lock(&mutex_);
  return session_.WorstLateness();
}

bool CaptureRunner::Drain(Nanos timeout) {
  MutexLock lock(&mutex_);
  draining_ = true;
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return live_ == nullptr; };
  return mutex_.AwaitFor(timeout, idle);
}

void CaptureRunner::Suspend() {
  std::string live;
  {
    MutexLock lock(&mutex_);
    if (live_ == nullptr) return;
    live = session_.holder();
    live_->suspended = true;
  }
  Cancel(live, "the sidecar is ending");
}

void CaptureRunner::Run() {
  while (true) {
    v1::Report report;
    std::shared_ptr<Live> live;
    {
      MutexLock lock(&mutex_);
      const auto work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || live_ != nullptr;
      };
      mutex_.Await(work);
      if (live_ == nullptr) return;
      live = live_;
      report = *session_.Find(session_.holder());
    }
    const absl::Status ran = RunGuarded("capture", [&] { RunCapture(std::move(report), *live); });
    if (!ran.ok()) FinishFailed(MessageOf(ran), *live);
    // Returns freed memory to the system: a trace may have taken hundreds of megabytes.
    malloc_trim(0);
  }
}

void CaptureRunner::FinishFailed(const std::string& why, Live& live) {
  v1::Report report;
  {
    MutexLock lock(&mutex_);
    if (live_.get() != &live) return;  // The capture had ended before the exception.
    report = *session_.Find(session_.holder());
  }
  EndUndelivered(Outcome::kWorkerLost, StrCat("the sidecar failed: ", why), report);
  (void)RunGuarded("capture", [&] {
    live.delivery->Ended(report);
    if (ended_) ended_(report);
  });
  // Also if the calls above failed: otherwise the worker could never be captured again.
  Publish(report);
}

void CaptureRunner::Publish(const v1::Report& report) {
  MutexLock lock(&mutex_);
  session_.Update(report);
  if (report.state() == v1::DONE) live_.reset();
}

void CaptureRunner::Finish(Outcome outcome, std::string_view message, v1::Report& report,
                           Live& live) {
  SetOutcome(outcome, message, report);
  for (v1::Report& worker : *report.mutable_workers()) {
    if (worker.outcome() == v1::OUTCOME_UNSPECIFIED) SetOutcome(outcome, message, worker);
    worker.set_state(v1::DONE);
  }
  report.set_state(v1::DONE);
  LogInfo("capture ended", {{"capture", report.capture_id()},
                            {"outcome", std::string(Name(outcome))},
                            {"message", report.message()},
                            {"bytes", StrCat(report.bytes())},
                            {"url", report.url()}});
  live.delivery->Ended(report);
  if (ended_) ended_(report);
  Publish(report);
}

void CaptureRunner::FinishDelivery(const std::vector<absl::StatusOr<std::string>>& urls,
                                   v1::Report& report, Live& live) {
  const bool complete =
      std::all_of(urls.begin(), urls.end(), [](const auto& url) { return url.ok(); });
  std::string reason;
  {
    MutexLock lock(&mutex_);
    if (!complete && live.suspended && live.delivery->CanResume(report)) {
      LogInfo("the trace waits in the spool for the next start of the sidecar",
              {{"capture", report.capture_id()}});
      live_.reset();
      return;
    }
    reason = live.reason;
  }
  const std::vector<v1::Report*> reports = TraceReports(report);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (urls[i].ok()) {
      reports[i]->set_url(*urls[i]);  // MakeTraceFile has set the outcome.
      continue;
    }
    // The report keeps size and checksum. A later upload recognizes its own object by them, and a
    // user who finds the trace later can verify it.
    const Outcome outcome = OutcomeOf(urls[i].status());
    SetOutcome(outcome, outcome == Outcome::kCancelled ? reason : MessageOf(urls[i].status()),
               *reports[i]);
  }
  Summarize(report);
  Finish(static_cast<Outcome>(report.outcome()), std::string(report.message()), report, live);
}

void CaptureRunner::Abort(const Harm& harm, Live& live) {
  MutexLock lock(&mutex_);
  if (live.cancel.cancelled() || live.terminate.cancelled()) return;
  live.harm = harm;
  if (!harm.keep) return live.cancel.Cancel();
  live.terminated_at = clock_.MonoNow();
  live.terminate.Cancel();
}

void CaptureRunner::FinishCancelled(v1::Report& report, Live& live) {
  std::optional<Harm> harm;
  std::string reason;
  {
    MutexLock lock(&mutex_);
    harm = live.harm;
    reason = live.reason;
  }
  if (harm) return Finish(Outcome::kAborted, harm->message, report, live);
  Finish(Outcome::kCancelled, reason, report, live);
}

// After an early end, reduces the plan's window to what was recorded.
void CaptureRunner::Shorten(const Live& live, v1::Report& report) const {
  MutexLock lock(&mutex_);
  const v1::CapturePlan& plan = report.plan();
  const Nanos recorded = *live.terminated_at - live.steps.Moment(FromUnixNanos(plan.instant_ns()));
  const std::int64_t duration = std::clamp<std::int64_t>(recorded.count(), 0, plan.duration_ns());
  report.mutable_plan()->set_duration_ns(duration);
  for (v1::Report& worker : *report.mutable_workers())
    worker.mutable_plan()->set_duration_ns(duration);
}

void CaptureRunner::RunCapture(v1::Report report, Live& live) {
  if (report.state() == v1::UPLOADING) return ResumeDelivery(std::move(report), live);
  const v1::CapturePlan& plan = report.plan();
  LogInfo("armed", {{"capture", plan.capture_id()},
                    {"request", plan.request()},
                    {"in", FormatDuration(FromUnixNanos(plan.instant_ns()) - clock_.WallNow())}});
  Stopwatch watch(clock_);
  std::vector<Recording> recordings = RecordWindow(report, live, watch);
  if (recordings.empty() || live.cancel.cancelled()) return FinishCancelled(report, live);
  if (live.terminate.cancelled()) {
    for (Recording& recording : recordings) recording.ended_early = true;
    Shorten(live, report);
  }
  if (live.harm) {  // The guard has stopped, so nothing writes it any more.
    for (Recording& recording : recordings) {
      recording.outcome = Outcome::kAborted;
      recording.message = live.harm->message;
    }
  }
  std::vector<std::vector<Original>> originals;
  for (Recording& recording : recordings) originals.push_back(std::move(recording.originals));
  std::vector<TracePieces> traces = MakeTraceFiles(std::move(recordings), report);
  if (std::all_of(traces.begin(), traces.end(), [](const auto& pieces) { return pieces.empty(); }))
    return Finish(static_cast<Outcome>(report.outcome()), std::string(report.message()), report,
                  live);
  Deliver(std::move(traces), originals, std::move(report), live, watch);
}

void CaptureRunner::AwaitStep(Nanos ahead, const Live& live, v1::CapturePlan& plan) {
  while (!live.cancel.cancelled() && !live.terminate.cancelled()) {
    std::vector<v1::StepPace> told = source_.Steps();
    const Nanos set = live.steps.Since();
    for (v1::StepPace& pace : told) MoveTimes(-set, pace);
    const WallTime now = clock_.WallNow() - set;
    const StepProgress progress = ProgressOf(plan, told, now);
    if (progress.processes > 0) {
      plan.set_instant_ns(ToUnixNanos(progress.soonest));
      plan.set_duration_ns(
          std::min<Nanos>(progress.latest - progress.soonest, kLongestDuration).count());
    }
    const Nanos left = FromUnixNanos(plan.instant_ns() - plan.guard_ns()) - ahead - now;
    if (left <= Nanos{0} || FromUnixNanos(plan.steps_by_ns()) <= now) return;
    // Looks more often the nearer the step is. An hour ahead, the pace may be wrong by minutes.
    live.cancel.WaitFor(std::clamp<Nanos>(left / 2, kLookAtStepsAtMost, kLookAtStepsAtLeast));
  }
}

std::vector<Recording> CaptureRunner::RecordWindow(v1::Report& report, Live& live,
                                                   Stopwatch& watch) {
  v1::CapturePlan& plan = *report.mutable_plan();
  // Waits until recording must begin in `ahead`, and returns when. A monotonic time, so that all
  // workers start together even if this wall clock is set meanwhile.
  const auto await = [&](Nanos ahead) {
    if (plan.steps() > 0) AwaitStep(ahead, live, plan);
    const MonoTime start = live.steps.Moment(FromUnixNanos(plan.instant_ns() - plan.guard_ns()));
    if (plan.steps() == 0) live.cancel.WaitFor(start - ahead - clock_.MonoNow());
    return start;
  };
  std::optional<JobGuard> guard;
  if (monitor_ != nullptr) {
    await(source_.lead() + JobGuard::kLookBefore);
    guard.emplace(clock_, *monitor_, plan, [&](const Harm& harm) { Abort(harm, live); });
  }
  const MonoTime start = await(source_.lead());
  if (live.cancel.cancelled()) {
    if (guard) *report.mutable_job() = guard->Stop();
    return {};
  }

  report.set_state(v1::RECORDING);
  Publish(report);
  watch.Lap();
  if (guard) guard->Recording(start - clock_.MonoNow());
  const Nanos set = live.steps.Since();
  const auto collecting = [&] {
    if (guard) guard->Collecting();
    report.set_record_took_ns(watch.Lap());
    report.set_state(v1::COLLECTING);
    Publish(report);
  };
  std::vector<Recording> recordings =
      source_.Record(OnClockSetBy(set, plan), live.cancel, live.terminate, collecting);
  if (report.state() == v1::COLLECTING) report.set_collect_took_ns(watch.Lap());
  if (guard) *report.mutable_job() = guard->Stop();
  for (Recording& recording : recordings) {
    // The source knows the clock's steps since the call of Record; the report counts from arming.
    recording.clock_set_at_start += set;
    recording.clock_set_at_stop += set;
    for (v1::ProcessReport& process : recording.processes) MoveTimes(-set, process);
  }
  FillFromRecordings(recordings, report);
  return recordings;
}

void CaptureRunner::Deliver(std::vector<TracePieces> traces,
                            const std::vector<std::vector<Original>>& originals, v1::Report report,
                            Live& live, Stopwatch& watch) {
  report.set_state(v1::UPLOADING);
  // The delivery compares the plans' deadline with the wall clock as it is now.
  v1::Report delivered = report;
  const Nanos set = live.steps.Since();
  *delivered.mutable_plan() = OnClockSetBy(set, report.plan());
  for (v1::Report& worker : *delivered.mutable_workers())
    *worker.mutable_plan() = OnClockSetBy(set, worker.plan());
  const std::vector<absl::StatusOr<std::string>> urls =
      live.delivery->Deliver(delivered, std::move(traces), live.cancel, [&] { Publish(report); });
  const std::vector<const v1::Report*> delivered_reports = TraceReports(std::as_const(delivered));
  const std::vector<v1::Report*> reports = TraceReports(report);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const bool stored = urls[i].ok() && !urls[i]->empty();
    for (const Original& original : originals[i]) {
      ReportOriginal(
          original.process,
          stored ? live.delivery->DeliverOriginal(*delivered_reports[i], original, live.cancel)
                 : absl::UnavailableError("the trace is not stored either"),
          *reports[i]);
    }
  }
  report.set_upload_took_ns(watch.Lap());
  FinishDelivery(urls, report, live);
}

void CaptureRunner::ResumeDelivery(v1::Report report, Live& live) {
  LogInfo("resuming an upload", {{"capture", report.capture_id()}});
  if (report.plan().tracers().keep_original())
    report.add_notes("no original is kept: the sidecar was restarted before that");
  Stopwatch watch(clock_);
  const std::vector<absl::StatusOr<std::string>> urls = live.delivery->Resume(report, live.cancel);
  report.set_upload_took_ns(watch.Lap());
  FinishDelivery(urls, report, live);
}

}  // namespace strobe::session
