// What a session needs from the world.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "common/base/outcome.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

struct Recording {
  Outcome outcome = Outcome::kUnknown;  // kOk: the source has no complaint of its own.
  std::string message{};
  std::string xspace{};  // May hold a part of the trace even when the outcome is a cause.
  std::map<std::string, std::uint64_t> dropped{};  // See Report.dropped_events.
  // One per process; see Report.processes. Their times are those of the wall clock as it was when
  // Record was called.
  std::vector<v1::ProcessReport> processes{};
  // By how much the wall clock had been set since then when the trace's start and its stop were
  // read from it. The trace's own times are off by so much.
  Nanos clock_set_at_start{0}, clock_set_at_stop{0};
};

// Where a worker's events come from.
class Source {
 public:
  virtual ~Source() = default;
  // What can record at present. Returns by the deadline.
  virtual std::vector<v1::Source> Probe(Nanos timeout) = 0;
  // How long before the guard's start Record wants to be called.
  virtual Nanos lead() const = 0;
  // Records [instant - guard, instant + duration + guard) and returns when the trace is collected,
  // the plan's deadline has passed or the capture is cancelled. Calls `collecting` when it has
  // stopped recording. `terminate` ends the recording early but keeps what there is.
  virtual Recording Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                           const Cancellation& terminate,
                           const std::function<void()>& collecting) = 0;
};

struct JobStep {
  std::string loop{};  // The program and the annotation's name: steps of one loop are alike.
  MonoTime begin{}, end{};
};

// How the job fares, as far as its programs tell.
struct JobSigns {
  // Bytes, of the container's memory limit that is nearest; limit 0 = none, or nobody tells.
  std::uint64_t memory_used = 0, memory_limit = 0;
  std::vector<JobStep> steps{};  // That ended since the last look.
  bool steps_missing = false;    // Some may have ended unseen.
};

class JobMonitor {
 public:
  virtual ~JobMonitor() = default;
  // Called in turns, by one thread at a time. Between Begin and End programs are asked for what the
  // plan's limits need.
  virtual void Begin(const v1::CapturePlan& plan) = 0;
  virtual JobSigns Look() = 0;
  virtual void End() = 0;
};

// Where a finished trace goes. Called by one thread at a time.
class Delivery {
 public:
  virtual ~Delivery() = default;
  // ResourceExhausted when there is no room for one more trace.
  virtual absl::Status Room(const v1::CapturePlan& plan) = 0;
  // Returns the trace's URL. `pieces` are the file, one after the other; its size and checksum
  // stand in the report. Calls `uploading` when the trace is as safe as it can be and its upload
  // begins. Cancelled when told so; the trace is then still safe if Resume can have it.
  virtual absl::StatusOr<std::string> Deliver(const v1::Report& report,
                                              std::vector<std::string> pieces,
                                              const Cancellation& cancel,
                                              const std::function<void()>& uploading) = 0;
  // Goes on with what a process that has died began to deliver.
  virtual bool CanResume(const v1::Report& report) = 0;
  virtual absl::StatusOr<std::string> Resume(const v1::Report& report,
                                             const Cancellation& cancel) = 0;
  // The capture's last report, just before anybody else sees it.
  virtual void Ended(const v1::Report& report) = 0;
};

}  // namespace strobe::session
