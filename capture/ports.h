// What the core needs from outside: connections to sidecars, and who makes the report of a run.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/clock_estimate.h"
#include "capture/spec.h"
#include "common/base/clock.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::capture {

// A worker's answer to preflight.
struct Preflight {
  v1::DescribeResponse description{};
  std::optional<ClockEstimate> clock{};  // None = not measured.
  Nanos round_trip{};                    // How long the whole preflight took, including connecting.
};

// A connection to one worker's sidecar. Calls return at once. Each callback is called exactly once,
// from any thread: with the answer, or with an error at the latest after the timeout. If the object
// is dropped, calls in flight may be cancelled; their callbacks are still called.
class Worker {
 public:
  template <typename T>
  using Callback = std::function<void(absl::StatusOr<T>)>;
  virtual ~Worker() = default;

  // Asks what the sidecar can record and whether it knows the capture, and measures its clock.
  virtual void Check(const std::string& capture_id, Nanos timeout, Callback<Preflight> done) = 0;
  // Measures the sidecar's clock, and asks for nothing else. Waits for its turn if many are asked,
  // so that it is measured as well as the network allows; `timeout` begins then.
  virtual void MeasureClock(Nanos timeout, Callback<ClockEstimate> done) = 0;
  // Idempotent: a sidecar that has accepted the plan before answers with its report.
  virtual void Arm(const v1::CapturePlan& plan, Nanos timeout, Callback<v1::ArmResponse> done) = 0;
  // Calls `report` for every report of the capture, a bounded number of times, then `ended` once.
  // DataLoss: the worker sent more reports than a capture can have. NotFound: it does not know the
  // capture. Dropping the returned handle ends the stream.
  virtual std::shared_ptr<void> Watch(const std::string& capture_id,
                                      std::function<void(v1::Report)> report,
                                      std::function<void(absl::Status)> ended) = 0;
  // Ends a capture; with `keep`, what was recorded so far is still delivered. Idempotent.
  virtual void Cancel(const v1::CancelRequest& request, Nanos timeout,
                      Callback<v1::CancelResponse> done) = 0;
  // Asks for the digest of a trace, which the answer holds as it came: it is not trusted.
  // Unimplemented: the sidecar is older than digests.
  virtual void ReadDigest(const v1::ReadDigestRequest& request, Nanos timeout,
                          Callback<v1::ReadDigestResponse> done) = 0;
  // Asks what the worker's processes show while they may stand still. Unimplemented: the sidecar is
  // older than evidence.
  virtual void ReadEvidence(const v1::ReadEvidenceRequest& request, Nanos timeout,
                            Callback<v1::ReadEvidenceResponse> done) = 0;
  // Writes the manifest into the run. AlreadyExists: another capture's manifest is there.
  virtual void Publish(const v1::PublishRequest& request, Nanos timeout,
                       Callback<v1::PublishResponse> done) = 0;
  // Deletes the objects of a run that carry the capture's id.
  virtual void Reclaim(const v1::ReclaimRequest& request, Nanos timeout,
                       Callback<v1::ReclaimResponse> done) = 0;
};

class WorkerConnector {
 public:
  virtual ~WorkerConnector() = default;
  // Never blocks. If the worker cannot be reached, its first call fails.
  virtual std::shared_ptr<Worker> Connect(const Target& target) = 0;
};

// What the traces of a capture say together about its job.
struct JobReport {
  std::string headline{};  // One human-readable line; empty = there is no report.
  std::string json{};      // The content of report.json.
  // For metrics; none = not known. See collector/trace/report/run_report.h.
  std::optional<double> step_seconds{}, straggler_seconds{}, exposed_communication{};
  std::string url{};  // Empty when it could not be written.
};

// One worker whose trace the report is to take into account.
struct ReportedWorker {
  std::string name{};                 // Human-readable: the name of its trace's file.
  std::shared_ptr<Worker> sidecar{};  // Null: it has no trace.
  std::string trace{};                // The trace's name at its sidecar.
  std::string missing{};              // Why it has no trace.
  int rank = -1;                      // -1 = not known.
  std::string role{}, group{};        // See WorkerResult.
  std::optional<Nanos> error{};       // Its clock's error; none = not measured.
  // The clock's offset as known now, minus the offset in its plan, which its digest contains.
  Nanos clock_correction{};
};

struct ReportOrder {
  std::string capture_id{}, run{};
  std::vector<ReportedWorker> workers{};
  Nanos patience{};  // Workers that have not answered by then are missing from the report.
};

class Reporter {
 public:
  virtual ~Reporter() = default;
  // Returns at once. `done` is called at most once, from any thread; never if the reporter ends
  // first.
  virtual void Make(ReportOrder order, std::function<void(JobReport)> done) = 0;
};

}  // namespace strobe::capture
