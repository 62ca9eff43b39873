// Puts traces into their plan's logdir: first into the spool, then into the store. What the store
// does not take within the capture's deadline stays in the spool and is tried again in the
// background.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "collector/logdir/object_store.h"
#include "collector/storage/pace.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "sidecar/session/ports.h"
#include "sidecar/spool/spool.h"

namespace strobe {

struct UploadEvents {
  std::function<void()> late = nullptr;     // A kept trace has arrived after all.
  std::function<void()> dropped = nullptr;  // A kept trace was given up.
};

struct UploadLimits {
  // How long a trace that could not be uploaded is kept and tried again.
  Nanos keep = std::chrono::hours(6);
  std::uint64_t bytes_per_second = 0;  // Of all uploads together; 0 = as fast as it goes.
  // Before a kept trace is tried for the first time; doubles from then on.
  Nanos first_wait = std::chrono::seconds(15);
};

class UploadDelivery final : public session::Delivery {
 public:
  // All outlive it. Without a spool (null) traces go from memory to the store and die with the
  // process.
  UploadDelivery(const Clock& clock, StoreOpener& stores, Spool* spool, UploadLimits limits = {},
                 UploadEvents events = {});
  ~UploadDelivery() override;
  UploadDelivery(const UploadDelivery&) = delete;
  UploadDelivery& operator=(const UploadDelivery&) = delete;

  absl::Status Room(const v1::CapturePlan& plan) override;
  absl::StatusOr<std::string> Deliver(const v1::Report& report, std::vector<std::string> pieces,
                                      const Cancellation& cancel,
                                      const std::function<void()>& uploading) override;
  bool CanResume(const v1::Report& report) override;
  absl::StatusOr<std::string> Resume(const v1::Report& report, const Cancellation& cancel) override;
  void Ended(const v1::Report& report) override;

 private:
  struct Kept {
    v1::Report report;
    MonoTime next{};
    Nanos wait{};
    WallTime until{};
  };

  absl::StatusOr<std::string> UploadNow(const v1::Report& report, const ByteSource& bytes,
                                        const StoreLimits& limits, bool spooled);
  absl::StatusOr<std::string> UploadSpooled(const v1::Report& report, const StoreLimits& limits);
  StoreLimits LimitsOf(const v1::CapturePlan& plan, const Cancellation& cancel) const;
  void RemoveOrKeep(const v1::Report& ended);
  void Keep(const v1::Report& report);
  void Drop(const v1::Report& report);
  void RunKept();
  void TryKept(Kept kept);

  const Clock& clock_;
  StoreOpener& stores_;
  Spool* const spool_;
  const UploadLimits limits_;
  std::optional<Pace> pace_;
  const UploadEvents events_;

  Mutex mutex_;
  std::map<std::string, Kept> kept_ ABSL_GUARDED_BY(mutex_);
  Cancellation stopping_;
  std::thread thread_;  // Last, and only with a spool.
};

}  // namespace strobe
