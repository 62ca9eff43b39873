// The interfaces through which captures reach the outside.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "common/protocol/outcome.h"
#include "sidecar/capture/engine_reading.h"
#include "sidecar/capture/original.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// The result of recording one worker: all processes of a sidecar, or those of one local rank.
struct Recording {
  Outcome outcome = Outcome::kUnknown;  // kOk if the source reports no problem.
  std::string message{};
  // A serialized XSpace. It may contain a part of the trace even if the outcome is not kOk.
  std::string xspace{};
  std::map<std::string, std::uint64_t> dropped{};  // See Report.dropped_events.
  // One row per process; see Report.processes. Times refer to the wall clock as it was when Record
  // was called.
  std::vector<v1::ProcessReport> processes{};
  // The place in the job of the recorded processes; none if they do not tell it.
  std::optional<v1::ProcessRank> rank{};
  // A process was asked that has the options of PyTorch's profiler; see v1::Tracers.
  bool has_torch_options = false;
  // What the processes' own profilers wrote, if the plan asks for it.
  std::vector<Original> originals{};
  // How far the wall clock had been set, since the call of Record, when the trace's start and its
  // end were read from it. The trace's own times are wrong by these amounts.
  Nanos clock_set_at_start{0}, clock_set_at_stop{0};
  // How many processes told steps of the plan's loop; 0 if the plan counts no steps.
  std::size_t stepping_processes = 0;
  bool ended_early = false;  // Somebody ended the recording and keeps what there is.
};

// The result of a source that recorded no ranks apart. A Recording cannot be copied.
inline std::vector<Recording> OneRecording(Recording recording) {
  std::vector<Recording> recordings;
  recordings.push_back(std::move(recording));
  return recordings;
}

// A source of a worker's events.
class Source {
 public:
  virtual ~Source() = default;
  // Returns the available sources and whether each is ready. Takes at most `timeout`.
  virtual std::vector<v1::Source> Probe(Nanos timeout) = 0;
  // How long before the start of the guard Record must be called.
  virtual Nanos lead() const = 0;
  // The last training steps that the worker's processes began, whether or not they are recorded.
  // Times refer to the wall clock as it is now.
  virtual std::vector<v1::StepPace> Steps() { return {}; }
  // What the worker's inference servers tell of their engines, whether or not they are recorded.
  virtual std::vector<EngineReading> Engines() { return {}; }
  // Records [instant - guard, instant + duration + guard). If the plan counts steps, the instant is
  // a time before the first step, and processes that tell steps are recorded until they have ended
  // the last one, at most until plan.steps_by_ns. Returns when the trace is collected, the
  // plan's deadline has passed, or the capture is cancelled. Calls `collecting` when recording has
  // stopped. `terminate` ends the recording early and keeps what was recorded. Returns one
  // recording, or, if processes tell different local ranks, one for each local rank, in ascending
  // order.
  virtual std::vector<Recording> Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                                        const Cancellation& terminate,
                                        const std::function<void()>& collecting) = 0;
};

struct JobStep {
  // The program and the name of the annotation. Steps with the same loop are comparable.
  std::string loop{};
  MonoTime begin{}, end{};
};

// Observations of the training job, as far as its programs report them.
struct JobSigns {
  // In bytes, for the container's memory limit that is closest. A limit of 0 means that there is
  // none or it is not known.
  std::uint64_t memory_used = 0, memory_limit = 0;
  std::vector<JobStep> steps{};  // Steps that ended since the last call.
  bool steps_missing = false;    // True if further steps may have ended without being seen.
};

// Observes the training job.
class JobMonitor {
 public:
  virtual ~JobMonitor() = default;
  // The functions are called by one thread at a time. Between Begin and End, programs are asked for
  // the data that the plan's limits need.
  virtual void Begin(const v1::CapturePlan& plan) = 0;
  virtual JobSigns Look() = 0;
  virtual void End() = 0;
};

// The content of one trace file, in pieces that are written one after the other. The thread that
// sums the trace up beside its upload shares it; it does not change after the upload has begun.
using TracePieces = std::vector<std::shared_ptr<std::string>>;

inline std::vector<std::string_view> ViewsOf(const TracePieces& pieces) {
  std::vector<std::string_view> views;
  for (const auto& piece : pieces) views.emplace_back(*piece);
  return views;
}

// The destination of finished traces. Called by one thread at a time.
class Delivery {
 public:
  virtual ~Delivery() = default;
  // ResourceExhausted if there is no space for another trace.
  virtual absl::Status CheckSpace(const v1::CapturePlan& plan) = 0;
  // Writes the capture's traces and returns their URLs, in the order of TraceReports(report).
  // `traces` has the content of each file, in pieces; one without pieces is not written, and its
  // URL is empty. The reports have size and checksum. Calls `uploading` when the traces are stored
  // as safely as possible and their upload begins. Cancelled if `cancel` is set; Resume can then
  // continue if CanResume is true.
  virtual std::vector<absl::StatusOr<std::string>> Deliver(
      const v1::Report& report, std::vector<TracePieces> traces, const Cancellation& cancel,
      const std::function<void()>& uploading) = 0;
  // True if the delivery of this report's traces, begun by an earlier process, can be resumed.
  virtual bool CanResume(const v1::Report& report) = 0;
  // Continues the delivery and returns the URLs, as Deliver does.
  virtual std::vector<absl::StatusOr<std::string>> Resume(const v1::Report& report,
                                                          const Cancellation& cancel) = 0;
  // Writes a file beside the trace, which was delivered before, and returns its name. The capture
  // is complete without it: no such delivery is resumed.
  virtual absl::StatusOr<std::string> DeliverOriginal(const v1::Report& report,
                                                      const Original& original,
                                                      const Cancellation& cancel) = 0;
  // Called with the capture's last report, just before others can see it.
  virtual void OnEnd(const v1::Report& report) = 0;
};

}  // namespace strobe::session
