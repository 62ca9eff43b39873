#include "sidecar/session/capture_runner.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <utility>

#include "collector/analysis/judge.h"
#include "collector/base/duration.h"
#include "collector/base/log.h"
#include "collector/base/strings.h"
#include "collector/xplane/summary.h"
#include "sidecar/session/trace_report.h"

namespace strobe::session {
namespace {

Outcome OutcomeOf(const absl::Status& upload) {
  switch (upload.code()) {
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return Outcome::kUploadDenied;
    default:
      return Outcome::kUploadFailed;
  }
}

void SetOutcome(Outcome outcome, std::string_view message, v1::Report& report) {
  report.set_outcome(static_cast<v1::Outcome>(outcome));
  report.set_message(std::string(message.substr(0, 1024)));
}

}  // namespace

CaptureRunner::CaptureRunner(const Clock& clock, Source& source, Delivery& delivery,
                             std::function<void(const v1::Report&)> ended)
    : clock_(clock),
      source_(source),
      delivery_(delivery),
      ended_(std::move(ended)),
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
  if (draining_ && session_.Find(plan.capture_id()) == nullptr) {
    response.set_refusal(v1::UNREACHABLE);
    response.set_message("the sidecar is ending");
    return response;
  }
  const ArmDecision decision = session_.Arm(plan, clock_.WallNow());
  response.set_accepted(decision.accepted);
  if (!decision.accepted) {
    response.set_refusal(static_cast<v1::Outcome>(decision.refusal));
    response.set_message(decision.message);
    return response;
  }
  if (decision.fresh) {
    live_ = std::make_shared<Live>();
    live_->delivery = delivery != nullptr ? delivery : &delivery_;
  }
  *response.mutable_report() = *session_.Find(plan.capture_id());
  return response;
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
    RunCapture(std::move(report), *live);
    // A trace may have been hundreds of megabytes; an idle sidecar must not keep them.
    malloc_trim(0);
  }
}

void CaptureRunner::Publish(const v1::Report& report) {
  MutexLock lock(&mutex_);
  session_.Update(report);
  if (report.state() == v1::DONE) live_.reset();
}

void CaptureRunner::WaitUntil(WallTime time, const Cancellation& cancel) const {
  // In slices, so that a step of the wall clock during a long delay is noticed.
  for (Nanos left = time - clock_.WallNow(); left > Nanos{0} && !cancel.cancelled();
       left = time - clock_.WallNow()) {
    cancel.WaitFor(std::min<Nanos>(left, std::chrono::milliseconds(500)));
  }
}

void CaptureRunner::RunCapture(v1::Report report, Live& live) {
  const v1::CapturePlan plan = report.plan();
  LogInfo("armed", {{"capture", plan.capture_id()},
                    {"request", plan.request()},
                    {"in", FormatDuration(FromUnixNanos(plan.instant_ns()) - clock_.WallNow())}});
  const auto finish = [&](Outcome outcome, std::string_view message) {
    SetOutcome(outcome, message, report);
    report.set_state(v1::DONE);
    LogInfo("capture ended", {{"capture", plan.capture_id()},
                              {"outcome", std::string(Name(outcome))},
                              {"message", report.message()},
                              {"bytes", StrCat(report.bytes())},
                              {"url", report.url()}});
    if (ended_) ended_(report);
    Publish(report);
  };
  const auto cancelled = [&] {
    MutexLock lock(&mutex_);
    return live.reason;
  };

  WaitUntil(FromUnixNanos(plan.instant_ns() - plan.guard_ns()) - source_.lead(), live.cancel);
  if (live.cancel.cancelled()) return finish(Outcome::kCancelled, cancelled());

  report.set_state(v1::RECORDING);
  Publish(report);
  MonoTime stage = clock_.MonoNow();
  const auto lap = [&] {
    const MonoTime now = clock_.MonoNow();
    return (now - std::exchange(stage, now)).count();
  };
  Recording recording = source_.Record(plan, live.cancel, live.terminate, [&] {
    report.set_record_took_ns(lap());
    report.set_state(v1::COLLECTING);
    Publish(report);
  });
  if (report.state() == v1::COLLECTING) report.set_collect_took_ns(lap());
  if (live.cancel.cancelled()) return finish(Outcome::kCancelled, cancelled());
  if (recording.xspace.empty()) return finish(recording.outcome, recording.message);

  const absl::StatusOr<xplane::TraceSummary> summary = xplane::Summarize(recording.xspace);
  if (!summary.ok()) {
    return finish(Outcome::kProfilerStartFailed,
                  StrCat("the source answered with something that is no trace: ",
                         summary.status().message()));
  }
  FillFromTrace(*summary, report);
  const Window window{FromUnixNanos(plan.instant_ns()), Nanos{plan.duration_ns()}};
  const Judgement judged = JudgeTrace(*summary, window, false);
  report.set_covers_window(judged.covers_window);
  if (plan.max_bytes() > 0 && recording.xspace.size() > plan.max_bytes()) {
    return finish(Outcome::kTruncated, StrCat("the trace has ", recording.xspace.size(),
                                              " bytes, allowed are ", plan.max_bytes()));
  }
  if (plan.discard_late() && judged.outcome == Outcome::kLateStart) {
    return finish(judged.outcome, StrCat(judged.message, "; discarded as asked"));
  }

  report.set_state(v1::UPLOADING);
  Publish(report);
  const std::string plane = EncodeStrobePlane(report);
  const std::array<std::string_view, 2> pieces = {recording.xspace, plane};
  const absl::StatusOr<std::string> url = live.delivery->Deliver(plan, pieces);
  report.set_upload_took_ns(lap());
  if (!url.ok()) return finish(OutcomeOf(url.status()), Words(url.status()));
  report.set_url(*url);
  report.set_bytes(recording.xspace.size() + plane.size());
  report.set_sha256(Sha256Hex(pieces));
  if (recording.outcome != Outcome::kOk) return finish(recording.outcome, recording.message);
  finish(judged.outcome, judged.message);
}

}  // namespace strobe::session
