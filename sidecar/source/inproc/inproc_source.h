// Records through the profilers of frameworks in processes that announced a socket for it: PyTorch,
// and JAX or TensorFlow where their own server cannot be used.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "sidecar/capture/ports.h"
#include "sidecar/source/base/announcements.h"
#include "sidecar/source/inproc/missing_processes.h"

namespace strobe::source {

// Record must not be called concurrently; Probe and Steps may be called at any time.
class InprocSource final : public session::Source {
 public:
  // `directory`: the agent directory. For `may_stall` see InprocLimits.
  InprocSource(const Clock& clock, std::string directory, bool may_stall);

  // Selects the processes that are not recorded by another source.
  using KinetoFilter = std::function<std::vector<Announcement>(std::vector<Announcement>)>;
  // Leaves the rest to Kineto's daemon, except in captures of a container, which do not ask it.
  // Must be called before any other function.
  void ShareWithKineto(KinetoFilter filter) { kineto_filter_ = std::move(filter); }

  // What the worker's processes told of themselves. Logs each failure once.
  WorkerProcesses Processes();

  // A process that told why it cannot be recorded is a source that is not ready.
  std::vector<v1::Source> Probe(Nanos timeout) override;
  Nanos lead() const override;
  std::vector<v1::StepPace> Steps() override;
  std::vector<session::EngineReading> Engines() override;
  // NoSource without processes if none announced itself. Processes with a server of ours are left
  // to it, unless the plan names a container. If the plan counts steps, each of its step_tellers
  // records itself from the begin of the first to the end of the last one, and any other process
  // records the time in which they are expected.
  std::vector<session::Recording> Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                                         const Cancellation& terminate,
                                         const std::function<void()>& collecting) override;

 private:
  std::vector<Announcement> Announced(const v1::CapturePlan& plan) const;

  const Clock& clock_;
  const std::string directory_;
  const bool may_stall_;
  KinetoFilter kineto_filter_{};  // Empty where the sidecar is no daemon of Kineto's.
  Mutex mutex_;
  // Processes that run and whose failures have been logged.
  std::set<std::string> logged_ ABSL_GUARDED_BY(mutex_);
};

// How long before the start these processes must be asked. `with_cuda` names those that use CUDA;
// see Announcement::process. Pure.
Nanos LeadOf(const std::vector<Announcement>& processes, const std::set<std::string>& with_cuda);

// The plan for one process: one that is not among the plan's tellers is recorded by time. Pure.
v1::CapturePlan PlanFor(const Announcement& process, v1::CapturePlan plan);

}  // namespace strobe::source
