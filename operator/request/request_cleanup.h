// What remains to be done for requests that are finished, deleted or gone: captures are cancelled,
// runs are reclaimed, the finalizer and expired requests are removed.
// Threads: as Reconciler, which calls it.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "capture/run_reclaim.h"
#include "common/base/mutex.h"
#include "operator/request/ports.h"
#include "operator/request/request_table.h"

namespace strobe::request {

class Cleanup {
 public:
  // Takes up the request's present attempt again; see AttemptLauncher::Begin.
  using Resume =
      std::function<absl::Status(const std::string& key, const objects::ProfileRequest& request)>;

  // `dependencies` and `table` must outlive it.
  Cleanup(const ReconcilerDependencies& dependencies, Table& table, Resume resume)
      : deps_(dependencies), table_(table), resume_(std::move(resume)) {}

  // The request is finished: removes the finalizer once nothing needs it, and deletes the request
  // when its time to live is over.
  absl::StatusOr<kube::ReconcileResult> AfterEnd(const std::string& key,
                                                 const objects::ProfileRequest& request);
  // The request is being deleted: cancels its capture, reclaims its runs if it asks for that, and
  // removes the finalizer, after five minutes whatever remains to be done.
  absl::StatusOr<kube::ReconcileResult> BeforeDeletion(const std::string& key,
                                                       const objects::ProfileRequest& request);
  // The request does not exist any more. `live` is its capture, or null.
  void AfterDeletion(const std::string& key, const LiveCapture* live);
  // No operator will come after this one: cancels all captures. None begins any more.
  void Retire(const std::string& why);

 private:
  struct Reclaiming {
    std::string uid{};
    std::shared_ptr<capture::RunReclaim> reclaim{};
  };

  absl::StatusOr<kube::ReconcileResult> Expire(const objects::ProfileRequest& request);
  absl::StatusOr<std::optional<kube::ReconcileResult>> StopCapture(
      const std::string& key, const objects::ProfileRequest& request, bool patient);
  absl::StatusOr<std::optional<kube::ReconcileResult>> Reclaim(
      const std::string& key, const objects::ProfileRequest& request);
  absl::StatusOr<std::shared_ptr<capture::RunReclaim>> StartReclaim(
      const std::string& key, const objects::ProfileRequest& request);
  void Forget(const std::string& key);

  const ReconcilerDependencies& deps_;
  Table& table_;
  const Resume resume_;
  Mutex mutex_;
  std::map<std::string, Reclaiming> reclaims_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::request
