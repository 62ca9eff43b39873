// Writes traces to their plan's logdir: first to the spool, then to the store. A trace that the
// store does not accept before the capture's deadline stays in the spool and is retried in the
// background, unless its run is deleted meanwhile.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collector/store/object_store.h"
#include "collector/store/pace.h"
#include "common/base/clock.h"
#include "sidecar/capture/ports.h"
#include "sidecar/spool/kept_traces.h"
#include "sidecar/spool/spool.h"

namespace strobe::spool {

struct UploadEvents {
  std::function<void()> late = nullptr;     // A kept trace was uploaded.
  std::function<void()> dropped = nullptr;  // A kept trace was discarded.
};

struct UploadLimits {
  // How long a trace is kept and retried after its upload failed.
  Nanos keep = std::chrono::hours(6);
  std::uint64_t bytes_per_second = 0;  // The limit for all uploads together; 0 is no limit.
  // The time before the first retry of a kept trace. It doubles with every retry.
  Nanos first_wait = std::chrono::seconds(15);
};

class UploadDelivery final : public session::Delivery {
 public:
  // All arguments must outlive this object. Without a spool (null), traces are uploaded from memory
  // and are lost if the process ends.
  UploadDelivery(const Clock& clock, storage::StoreOpener& stores, Spool* spool,
                 UploadLimits limits = {}, UploadEvents events = {});
  ~UploadDelivery() override;
  UploadDelivery(const UploadDelivery&) = delete;
  UploadDelivery& operator=(const UploadDelivery&) = delete;

  // Tries once more to upload the traces that are kept, and waits for that: the pod may end, and
  // they with it. Blocks for `within` at most.
  void LastTry(Nanos within);
  // Ends, at once, what is done in the background or aborted at a store. A later process with the
  // same spool does the rest.
  void Stop();

  absl::Status CheckSpace(const v1::CapturePlan& plan) override;
  std::vector<absl::StatusOr<std::string>> Deliver(const v1::Report& report,
                                                   std::vector<session::TracePieces> traces,
                                                   const Cancellation& cancel,
                                                   const std::function<void()>& uploading) override;
  bool CanResume(const v1::Report& report) override;
  std::vector<absl::StatusOr<std::string>> Resume(const v1::Report& report,
                                                  const Cancellation& cancel) override;
  absl::StatusOr<std::string> DeliverOriginal(const v1::Report& report,
                                              const session::Original& original,
                                              const Cancellation& cancel) override;
  void OnEnd(const v1::Report& report) override;

 private:
  // Uploads at the rate that UploadLimits allows.
  absl::Status UploadPaced(storage::ObjectStore& store, const std::string& key,
                           const storage::ByteSource& bytes, const storage::StoreLimits& limits,
                           storage::UploadOptions options);
  // Uploads bytes that are nowhere else, so that the upload is never resumed.
  absl::Status UploadOnce(storage::ObjectStore& store, const std::string& logdir,
                          const std::string& key, const storage::ByteSource& bytes,
                          const storage::StoreLimits& limits, storage::UploadOptions options);
  // The journal of an upload to the key. An upload to another one is aborted: the run has got
  // another name since. Cancelled if Stop came first.
  absl::StatusOr<storage::UploadState> JournalFor(const SpooledTrace& trace,
                                                  const std::string& key);
  absl::StatusOr<std::string> KeptAfter(MonoTime deadline, absl::StatusOr<std::string> url) const;
  absl::StatusOr<std::string> UploadNow(const SpooledTrace& trace, const storage::ByteSource& bytes,
                                        const storage::StoreLimits& limits, bool spooled);
  bool RunIsGone(const SpooledTrace& trace, const storage::StoreLimits& limits);
  absl::StatusOr<std::string> UploadSpooled(const SpooledTrace& trace,
                                            const storage::StoreLimits& limits);
  // Writes the traces and their report to the spool, and tells which of them it has. Their memory
  // is released.
  std::vector<bool> Store(const v1::Report& report, std::vector<session::TracePieces>& traces);
  // Uploads the compressed file at `path` and returns its name in the run.
  absl::StatusOr<std::string> UploadOriginal(const v1::CapturePlan& plan,
                                             const session::Original& original,
                                             const std::string& path,
                                             const storage::StoreLimits& limits);
  storage::StoreLimits LimitsOf(const v1::CapturePlan& plan, const Cancellation& cancel) const;
  storage::StoreLimits ResumeLimitsOf(const v1::CapturePlan& plan,
                                      const Cancellation& cancel) const;
  void RemoveOrKeep(const SpooledTrace& ended, Nanos keep);
  void Keep(const SpooledTrace& trace, Nanos keep);
  // Discards a trace, and aborts its upload if the store can be reached. False if Stop left both to
  // a later process.
  bool Drop(const SpooledTrace& trace);
  void DropLater(const SpooledTrace& trace);  // On the thread.
  // Aborts an upload in parts, unless the id is empty or the store cannot be reached. False if Stop
  // came first.
  bool AbortUpload(const std::string& logdir, const std::string& key, const std::string& id);
  std::optional<KeptTrace> TryKept(KeptTrace kept);

  const Clock& clock_;
  storage::StoreOpener& stores_;
  Spool* const spool_;
  const UploadLimits limits_;
  std::optional<storage::Pace> pace_;
  const UploadEvents events_;

  Cancellation stopping_;
  // Declared last: its thread uses the members above, and runs only with a spool.
  KeptTraces kept_;
};

}  // namespace strobe::spool
