#include "sidecar/capture/capture_runner.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "common/base/duration.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "sidecar/capture/trace_file.h"
#include "sidecar/capture/trace_report.h"
#include "sidecar/capture/window_recorder.h"

namespace strobe::session {
CaptureRunner::CaptureRunner(const Clock& clock, Source& source, Delivery& delivery,
                             std::function<void(const v1::Report&)> ended, JobMonitor* monitor)
    : clock_(clock),
      source_(source),
      delivery_(delivery),
      on_end_(std::move(ended)),
      monitor_(monitor),
      thread_([this] { Run(); }) {}

CaptureRunner::~CaptureRunner() {
  Suspend();
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
    response.set_message("the sidecar is shutting down");
    return response;
  }
  Delivery& target = delivery != nullptr ? *delivery : delivery_;
  if (!known && session_.holder().empty()) {
    if (const absl::Status room = target.CheckSpace(plan); !room.ok()) {
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
    live_ = std::make_shared<LiveCapture>(steps, target);
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
      delivery_.OnEnd(report);
    }
    MutexLock lock(&mutex_);
    session_.Restore(std::move(report));
  }
  if (!live) return;
  MutexLock lock(&mutex_);
  session_.Restore(*std::move(live));
  live_ = std::make_shared<LiveCapture>(ClockSteps(clock_), delivery_);
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
  if (session_.Find(capture_id) == nullptr) {
    session_.Forbid(capture_id);
    return false;
  }
  if (live_ != nullptr && session_.holder() == capture_id) live_->Cancel(reason);
  return true;
}

bool CaptureRunner::Terminate(std::string_view capture_id) {
  MutexLock lock(&mutex_);
  if (live_ == nullptr || session_.holder() != capture_id) return false;
  live_->Terminate(clock_.MonoNow());
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

bool CaptureRunner::Drain(Nanos timeout, Nanos until_recorded) {
  MutexLock lock(&mutex_);
  draining_ = true;
  const MonoTime began = clock_.MonoNow();
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return live_ == nullptr; };
  const auto recorded = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return live_ == nullptr || session_.Find(session_.holder())->state() >= v1::COLLECTING;
  };
  if (!mutex_.AwaitFor(std::min(timeout, until_recorded), recorded)) return false;
  return mutex_.AwaitFor(timeout - (clock_.MonoNow() - began), idle);
}

void CaptureRunner::Suspend() {
  MutexLock lock(&mutex_);
  if (live_ != nullptr) live_->Suspend();
}

void CaptureRunner::Run() {
  while (true) {
    v1::Report report;
    std::shared_ptr<LiveCapture> live;
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

void CaptureRunner::RunCapture(v1::Report report, LiveCapture& live) {
  if (report.state() == v1::UPLOADING) return ResumeDelivery(std::move(report), live);
  RecordAndDeliver(std::move(report), live);
}

void CaptureRunner::RecordAndDeliver(v1::Report report, LiveCapture& live) {
  const v1::CapturePlan& plan = report.plan();
  LogInfo("armed", {{"capture", plan.capture_id()},
                    {"request", plan.request()},
                    {"in", FormatDuration(FromUnixNanos(plan.instant_ns()) - clock_.WallNow())}});
  digests_.Stop();
  const auto publish = [&] { Publish(report); };
  Stopwatch watch(clock_);
  std::vector<Recording> recordings =
      WindowRecorder(clock_, source_, monitor_).Record(live, watch, publish, report);
  if (recordings.empty() || live.cancel().cancelled()) return FinishCancelled(report, live);
  std::vector<std::vector<Original>> originals;
  for (Recording& recording : recordings) originals.push_back(std::move(recording.originals));
  std::vector<TracePieces> traces = MakeTraceFiles(std::move(recordings), report);
  if (std::all_of(traces.begin(), traces.end(), [](const auto& pieces) { return pieces.empty(); }))
    return Finish(report, live);
  // Stock profiler clients, which have a delivery of their own, ask for no digest.
  if (&live.delivery() == &delivery_) digests_.Begin(report, traces);
  const TraceUrls urls = DeliverTraces(std::move(traces), originals, live, publish, report);
  report.set_upload_took_ns(watch.Lap());
  FinishDelivery(urls, report, live);
}

void CaptureRunner::ResumeDelivery(v1::Report report, LiveCapture& live) {
  LogInfo("resuming an upload", {{"capture", report.capture_id()}});
  if (report.plan().tracers().keep_original())
    report.add_notes("no original was kept: the sidecar was restarted first");
  Stopwatch watch(clock_);
  const TraceUrls urls = live.delivery().Resume(report, live.cancel());
  report.set_upload_took_ns(watch.Lap());
  FinishDelivery(urls, report, live);
}

void CaptureRunner::FinishDelivery(const TraceUrls& urls, v1::Report& report, LiveCapture& live) {
  if (!IsComplete(urls) && live.suspended() && live.delivery().CanResume(report)) {
    LogInfo("the trace waits in the spool for the next start of the sidecar",
            {{"capture", report.capture_id()}});
    MutexLock lock(&mutex_);
    live_.reset();
    return;
  }
  FillUrls(urls, live.reason(), report);
  Finish(report, live);
}

void CaptureRunner::FinishCancelled(v1::Report& report, LiveCapture& live) {
  const LiveCapture::End end = live.CancelledEnd();
  EndUndelivered(end.outcome, end.message, report);
  Finish(report, live);
}

void CaptureRunner::FinishFailed(const std::string& why, LiveCapture& live) {
  v1::Report report;
  {
    MutexLock lock(&mutex_);
    if (live_.get() != &live) return;  // The capture had ended before the exception.
    report = *session_.Find(session_.holder());
  }
  EndUndelivered(Outcome::kWorkerLost, StrCat("the sidecar failed: ", why), report);
  (void)RunGuarded("capture", [&] {
    live.delivery().OnEnd(report);
    if (on_end_) on_end_(report);
  });
  // Also if the calls above failed: otherwise the worker could never be captured again.
  Publish(report);
}

void CaptureRunner::Finish(v1::Report& report, LiveCapture& live) {
  for (v1::Report& worker : *report.mutable_workers()) worker.set_state(v1::DONE);
  report.set_state(v1::DONE);
  LogInfo("capture ended", {{"capture", report.capture_id()},
                            {"outcome", std::string(Name(static_cast<Outcome>(report.outcome())))},
                            {"message", report.message()},
                            {"bytes", StrCat(report.bytes())},
                            {"url", report.url()}});
  live.delivery().OnEnd(report);
  if (on_end_) on_end_(report);
  Publish(report);
}

void CaptureRunner::Publish(const v1::Report& report) {
  MutexLock lock(&mutex_);
  session_.Update(report);
  if (report.state() == v1::DONE) live_.reset();
}

}  // namespace strobe::session
