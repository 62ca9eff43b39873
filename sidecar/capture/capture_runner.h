// Runs one capture at a time on a thread of its own: waits for the start, records, judges,
// delivers. It continues without a client that watches. Safe for concurrent use.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "sidecar/capture/live_capture.h"
#include "sidecar/capture/ports.h"
#include "sidecar/capture/session.h"
#include "sidecar/capture/trace_delivery.h"
#include "sidecar/capture/trace_digests.h"

namespace strobe::session {

class CaptureRunner {
 public:
  // All arguments must outlive the runner. `ended` is called with the last report of every capture,
  // just before others can see it. Without a monitor, the training job is not watched.
  CaptureRunner(const Clock& clock, Source& source, Delivery& delivery,
                std::function<void(const v1::Report&)> ended = nullptr,
                JobMonitor* monitor = nullptr);
  ~CaptureRunner();  // Suspends the live capture and waits for its end.
  CaptureRunner(const CaptureRunner&) = delete;
  CaptureRunner& operator=(const CaptureRunner&) = delete;

  // Accepts or refuses a capture. `delivery`, if given, receives the trace instead of the runner's
  // own delivery and must live until the capture is DONE.
  v1::ArmResponse Arm(const v1::CapturePlan& plan, Delivery* delivery = nullptr);
  // Takes over the reports of an earlier process, oldest first, and resumes its delivery. Call it
  // before the first Arm.
  void Restore(std::vector<v1::Report> reports);
  std::optional<v1::Report> Find(std::string_view capture_id) const;
  // Waits until the capture's state differs from `known`, at most `timeout`, and returns the
  // report. Nothing for an unknown capture.
  std::optional<v1::Report> WaitForChange(std::string_view capture_id, v1::CaptureState known,
                                          Nanos timeout) const;
  // Cancels a capture. False if it is unknown; a later Arm of it is then refused. A DONE capture
  // does not change.
  bool Cancel(std::string_view capture_id, std::string_view reason);
  // Ends the recording early and keeps the trace. False if the capture is not live.
  bool Terminate(std::string_view capture_id);
  // Waits for the digest of a trace of the newest capture; see TraceDigests::Wait.
  absl::StatusOr<std::string> Digest(std::string_view capture_id, std::string_view worker,
                                     Nanos timeout) const {
    return digests_.Wait(capture_id, worker, timeout);
  }
  std::string holder() const;
  Nanos WorstLateness() const;
  // Refuses new captures and waits for the live one: at most `timeout`, but no longer than
  // `until_recorded` while it still waits for its start or records. True if it has ended.
  bool Drain(Nanos timeout, Nanos until_recorded = Nanos::max());
  // Stops the live capture before the process ends. A delivery is interrupted such that a later
  // process can resume it; a capture in an earlier state is cancelled.
  void Suspend();

 private:
  void Run();
  // Runs one capture from its present state to its end.
  void RunCapture(v1::Report report, LiveCapture& live);
  void RecordAndDeliver(v1::Report report, LiveCapture& live);
  // Continues a delivery that an earlier process began.
  void ResumeDelivery(v1::Report report, LiveCapture& live);
  // Ends the capture, unless its delivery is to be resumed by the next process.
  void FinishDelivery(const TraceUrls& urls, v1::Report& report, LiveCapture& live);
  void FinishCancelled(v1::Report& report, LiveCapture& live);
  // Ends the capture after an exception.
  void FinishFailed(const std::string& why, LiveCapture& live);
  // Ends the capture with the outcome that its report has.
  void Finish(v1::Report& report, LiveCapture& live);
  void Publish(const v1::Report& report);

  const Clock& clock_;
  Source& source_;
  Delivery& delivery_;
  const std::function<void(const v1::Report&)> on_end_;
  JobMonitor* const monitor_;

  mutable Mutex mutex_;
  Session session_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<LiveCapture> live_ ABSL_GUARDED_BY(mutex_);  // Set by Arm, reset when DONE.
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  TraceDigests digests_;
  std::thread thread_;  // Declared last: the thread uses the members above.
};

}  // namespace strobe::session
