// What the core needs of the world: sidecars.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "operator/core/capture_spec.h"
#include "strobe/v1/worker.pb.h"

namespace strobe {

struct Preflight {
  v1::DescribeResponse description{};
  // Worker clock minus ours, true within +-error; no error = could not be measured.
  Nanos offset{};
  std::optional<Nanos> error{};
  Nanos wall_less_monotonic{};  // Of the worker when that was measured; 0 = not known.
  Nanos round_trip{};           // Of the whole preflight, connecting included.
};

// One worker's sidecar. Calls return at once; callbacks come once, from any thread, also for what
// never answered (then with an error, by the timeout). Dropping the object drops what is in flight
// without a callback being lost: it comes with Cancelled.
class Worker {
 public:
  template <typename T>
  using Callback = std::function<void(absl::StatusOr<T>)>;
  virtual ~Worker() = default;

  virtual void Check(const std::string& capture_id, Nanos timeout, Callback<Preflight> done) = 0;
  virtual void Arm(const v1::CapturePlan& plan, Nanos timeout, Callback<v1::ArmResponse> done) = 0;
  // `report` comes a bounded number of times, then `ended` once: with DataLoss when the
  // worker sends more reports than a capture has. Dropping the returned handle ends it.
  virtual std::shared_ptr<void> Watch(const std::string& capture_id,
                                      std::function<void(v1::Report)> report,
                                      std::function<void(absl::Status)> ended) = 0;
  virtual void Cancel(const v1::CancelRequest& request, Nanos timeout,
                      Callback<v1::CancelResponse> done) = 0;
  virtual void Publish(const v1::PublishRequest& request, Nanos timeout,
                       Callback<v1::PublishResponse> done) = 0;
  virtual void Reclaim(const v1::ReclaimRequest& request, Nanos timeout,
                       Callback<v1::ReclaimResponse> done) = 0;
};

class WorkerConnector {
 public:
  virtual ~WorkerConnector() = default;
  // Never blocks; a worker that cannot be reached says so when it is called.
  virtual std::shared_ptr<Worker> Connect(const Target& target) = 0;
};

}  // namespace strobe
