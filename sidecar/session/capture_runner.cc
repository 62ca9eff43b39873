#include "sidecar/session/capture_runner.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "collector/analysis/judge.h"
#include "collector/xplane/summary.h"
#include "common/base/duration.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"
#include "sidecar/session/job_guard.h"
#include "sidecar/session/trace_report.h"

namespace strobe::session {
namespace {

constexpr std::size_t kMaxMessageBytes = 1024;

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

void SetOutcome(Outcome outcome, std::string_view message, v1::Report& report) {
  report.set_outcome(static_cast<v1::Outcome>(outcome));
  report.set_message(CutUtf8(message, kMaxMessageBytes));
}

// Whether the source's complaint is the better account of a trace that is judged so. It is of one
// that is empty; a trace that is late, or has no device, is so for reasons of its own, and what is
// only a loss of events must not hide that.
bool Explains(Outcome source, Outcome judged) {
  if (source == Outcome::kOk) return judged == Outcome::kOk;
  const bool empty = judged == Outcome::kNoHostEvents || judged == Outcome::kNoDeviceActivity;
  return empty || Describe(source).badness >= Describe(judged).badness;
}

ClockSteps StepsSince(const Clock& clock, const v1::CapturePlan& plan) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  const std::int64_t told = plan.wall_less_monotonic_ns();
  return told <= 0 || told > kMost ? ClockSteps(clock) : ClockSteps(clock, Nanos{told});
}

}  // namespace

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
      response.set_message(Words(room));
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
  // One at a time is delivered under the eyes of whoever asked for it: the last.
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
      SetOutcome(safe ? Outcome::kUploadFailed : Outcome::kWorkerLost,
                 safe ? "the sidecar was restarted; the trace is in its spool"
                      : "the sidecar was restarted and the trace is gone",
                 report);
      report.set_state(v1::DONE);
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
    if (!ran.ok()) FinishFailed(Words(ran), *live);
    // A trace may have been hundreds of megabytes; an idle sidecar must not keep them.
    malloc_trim(0);
  }
}

void CaptureRunner::FinishFailed(const std::string& why, Live& live) {
  v1::Report report;
  {
    MutexLock lock(&mutex_);
    if (live_.get() != &live) return;  // It had ended already.
    report = *session_.Find(session_.holder());
  }
  SetOutcome(Outcome::kWorkerLost, StrCat("the sidecar failed: ", why), report);
  report.set_state(v1::DONE);
  (void)RunGuarded("capture", [&] {
    live.delivery->Ended(report);
    if (ended_) ended_(report);
  });
  // Whatever came before: a worker that stays held can never be captured again.
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

void CaptureRunner::FinishDelivery(const absl::StatusOr<std::string>& url, v1::Report& report,
                                   Live& live) {
  if (url.ok()) {
    report.set_url(*url);
    // What the trace itself is worth was judged before.
    return Finish(static_cast<Outcome>(report.outcome()), std::string(report.message()), report,
                  live);
  }
  std::string reason;
  {
    MutexLock lock(&mutex_);
    if (live.suspended && live.delivery->CanResume(report)) {
      LogInfo("the trace waits in the spool for the next start",
              {{"capture", report.capture_id()}});
      live_.reset();
      return;
    }
    reason = live.reason;
  }
  const Outcome outcome = OutcomeOf(url.status());
  // Size and checksum stay: by them a later try knows its own object in the store, and whoever
  // finds the trace there later can check it.
  Finish(outcome, outcome == Outcome::kCancelled ? reason : Words(url.status()), report, live);
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

// Somebody ended the recording early: the window is what had been recorded by then.
void CaptureRunner::Shorten(const Live& live, v1::Report& report) const {
  MutexLock lock(&mutex_);
  v1::CapturePlan& plan = *report.mutable_plan();
  const Nanos recorded = *live.terminated_at - live.steps.Moment(FromUnixNanos(plan.instant_ns()));
  plan.set_duration_ns(std::clamp<std::int64_t>(recorded.count(), 0, plan.duration_ns()));
}

void CaptureRunner::RunCapture(v1::Report report, Live& live) {
  const v1::CapturePlan plan = report.plan();
  const auto finish = [&](Outcome outcome, std::string_view message) {
    Finish(outcome, message, report, live);
  };
  MonoTime stage = clock_.MonoNow();
  const auto lap = [&] {
    const MonoTime now = clock_.MonoNow();
    return (now - std::exchange(stage, now)).count();
  };
  if (report.state() == v1::UPLOADING) {
    LogInfo("goes on with an upload", {{"capture", plan.capture_id()}});
    const absl::StatusOr<std::string> url = live.delivery->Resume(report, live.cancel);
    report.set_upload_took_ns(lap());
    return FinishDelivery(url, report, live);
  }
  LogInfo("armed", {{"capture", plan.capture_id()},
                    {"request", plan.request()},
                    {"in", FormatDuration(FromUnixNanos(plan.instant_ns()) - clock_.WallNow())}});
  // A moment, whatever happens to the wall clock until then: the other workers keep to it too.
  const MonoTime start = live.steps.Moment(FromUnixNanos(plan.instant_ns() - plan.guard_ns()));
  const auto wait_until = [&](MonoTime time) { live.cancel.WaitFor(time - clock_.MonoNow()); };
  std::optional<JobGuard> guard;
  if (monitor_ != nullptr) {
    wait_until(start - source_.lead() - JobGuard::kLookBefore);
    guard.emplace(clock_, *monitor_, plan, [&](const Harm& harm) { Abort(harm, live); });
  }
  wait_until(start - source_.lead());
  if (live.cancel.cancelled()) {
    if (guard) *report.mutable_job() = guard->Stop();
    return FinishCancelled(report, live);
  }

  report.set_state(v1::RECORDING);
  Publish(report);
  lap();
  if (guard) guard->Recording(start - clock_.MonoNow());
  const Nanos set = live.steps.Since();
  Recording recording = source_.Record(OnClockSetBy(set, plan), live.cancel, live.terminate, [&] {
    if (guard) guard->Collecting();
    report.set_record_took_ns(lap());
    report.set_state(v1::COLLECTING);
    Publish(report);
  });
  if (report.state() == v1::COLLECTING) report.set_collect_took_ns(lap());
  if (guard) *report.mutable_job() = guard->Stop();
  for (const auto& [reason, events] : recording.dropped)
    (*report.mutable_dropped_events())[reason] = events;
  recording.clock_set_at_start += set;
  recording.clock_set_at_stop += set;
  TellOfClock(recording, report);
  for (v1::ProcessReport& process : recording.processes) MoveTimes(-set, process);
  FillProcesses(std::move(recording.processes), report);
  if (live.cancel.cancelled()) return FinishCancelled(report, live);
  if (live.terminate.cancelled()) Shorten(live, report);
  if (live.harm) {  // Nobody sets it any more.
    recording.outcome = Outcome::kAborted;
    recording.message = live.harm->message;
  }
  if (recording.xspace.empty()) return finish(recording.outcome, recording.message);

  absl::StatusOr<xplane::TraceSummary> summary = xplane::Summarize(recording.xspace);
  if (!summary.ok()) {
    return finish(Outcome::kProfilerStartFailed,
                  StrCat("the source answered with something that is no trace: ",
                         summary.status().message()));
  }
  CorrectTimes(recording, *summary);
  FillFromTrace(*summary, report);
  const Judgement judged = JudgeTrace(
      *summary,
      {.window = Window{FromUnixNanos(plan.instant_ns()), Nanos{report.plan().duration_ns()}},
       .expects_device = plan.expects_device(),
       .host_level = plan.tracers().host()});
  report.set_covers_window(judged.covers_window);
  if (Explains(recording.outcome, judged.outcome))
    SetOutcome(recording.outcome, recording.message, report);
  else
    SetOutcome(judged.outcome, judged.message, report);
  const std::string plane = EncodeStrobePlane(report, recording.clock_set_at_start);
  if (const std::string why = TooLarge(plan, recording.xspace.size() + plane.size()); !why.empty())
    return finish(Outcome::kTruncated, why);
  const bool late = judged.outcome == Outcome::kLateStart || report.outcome() == v1::LATE_START;
  if (plan.discard_late() && late) {
    const std::string& why = report.outcome() == v1::LATE_START ? report.message() : judged.message;
    return finish(Outcome::kLateStart, StrCat(why, "; discarded as asked"));
  }

  std::vector<std::string> pieces;
  pieces.push_back(std::move(recording.xspace));
  pieces.push_back(plane);
  Sha256 hash;
  for (const std::string& piece : pieces) {
    hash.Update(piece);
    report.set_bytes(report.bytes() + piece.size());
  }
  report.set_sha256(hash.Hex());
  report.set_state(v1::UPLOADING);
  // The store's deadline is looked at on the clock as it is now.
  v1::Report delivered = report;
  *delivered.mutable_plan() = OnClockSetBy(live.steps.Since(), report.plan());
  const absl::StatusOr<std::string> url =
      live.delivery->Deliver(delivered, std::move(pieces), live.cancel, [&] { Publish(report); });
  report.set_upload_took_ns(lap());
  FinishDelivery(url, report, live);
}

}  // namespace strobe::session
