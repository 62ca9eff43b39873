// Carries one capture at a time through its states on its own thread: wait for the instant, record,
// judge, deliver. Nobody has to watch. Safe for concurrent use.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/clock_steps.h"
#include "common/base/mutex.h"
#include "sidecar/session/harm.h"
#include "sidecar/session/ports.h"
#include "sidecar/session/session.h"

namespace strobe::session {

class CaptureRunner {
 public:
  // All outlive the runner.
  // `ended` is told every capture's last report, just before anybody else can see it. Without a
  // monitor nobody looks at how the job fares.
  CaptureRunner(const Clock& clock, Source& source, Delivery& delivery,
                std::function<void(const v1::Report&)> ended = nullptr,
                JobMonitor* monitor = nullptr);
  ~CaptureRunner();  // Cancels what is live and waits for it to end.
  CaptureRunner(const CaptureRunner&) = delete;
  CaptureRunner& operator=(const CaptureRunner&) = delete;

  // `delivery`, when given, takes this capture's trace instead of the runner's own and must live
  // until the capture is DONE.
  v1::ArmResponse Arm(const v1::CapturePlan& plan, Delivery* delivery = nullptr);
  // Takes over what an earlier process knew, and goes on with the delivery that it left. Before the
  // first Arm.
  void Restore(std::vector<v1::Report> reports);
  std::optional<v1::Report> Find(std::string_view capture_id) const;
  // The report once it differs from state `known`, or whatever it is when the time is up; nothing
  // for an unknown capture.
  std::optional<v1::Report> WaitForChange(std::string_view capture_id, v1::CaptureState known,
                                          Nanos timeout) const;
  // False when the capture is not known. A DONE capture stays as it is.
  bool Cancel(std::string_view capture_id, std::string_view reason);
  // Stops the recording early and keeps what there is.
  bool Terminate(std::string_view capture_id);
  std::string holder() const;
  Nanos WorstLateness() const;
  // Refuses new captures; true when the live one ended in time.
  bool Drain(Nanos timeout);
  // Stops what is live: a delivery so that a later process can go on with it, anything else for
  // good.
  void Suspend();

 private:
  struct Live {
    explicit Live(const ClockSteps& since) : steps(since) {}

    const ClockSteps steps;  // Since the clock was measured, which the plan's times are on.
    Cancellation cancel, terminate;
    std::string reason;
    std::optional<Harm> harm{};  // Why the guard ended it.
    std::optional<MonoTime> terminated_at{};
    bool suspended = false;  // A delivery that was cut short is not the capture's end.
    Delivery* delivery = nullptr;
  };

  void Run();
  // Ends the capture for the job's sake.
  void Abort(const Harm& harm, Live& live);
  void FinishCancelled(v1::Report& report, Live& live);
  // After an exception.
  void FinishFailed(const std::string& why, Live& live);
  void Shorten(const Live& live, v1::Report& report) const;
  void RunCapture(v1::Report report, Live& live);
  // From the recorded trace to the end, or from where an earlier process was.
  void Finish(Outcome outcome, std::string_view message, v1::Report& report, Live& live);
  void FinishDelivery(const absl::StatusOr<std::string>& url, v1::Report& report, Live& live);
  void Publish(const v1::Report& report);

  const Clock& clock_;
  Source& source_;
  Delivery& delivery_;
  const std::function<void(const v1::Report&)> ended_;
  JobMonitor* const monitor_;

  mutable Mutex mutex_;
  Session session_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Live> live_ ABSL_GUARDED_BY(mutex_);  // Set by Arm, reset when DONE.
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Last: it starts when the rest is there.
};

}  // namespace strobe::session
