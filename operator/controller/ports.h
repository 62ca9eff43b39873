// What the reconciler needs of Kubernetes and of the metrics.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/core/attempt_result.h"
#include "operator/core/capture_attempt.h"
#include "operator/core/job_shape.h"
#include "operator/core/request.h"
#include "operator/core/targets.h"

namespace strobe {

// Blocking; called from the reconciler's threads only.
class Cluster {
 public:
  virtual ~Cluster() = default;
  // From the cache, with our own writes in it. NotFound when there is no such object;
  // InvalidArgument when it cannot be read.
  virtual absl::StatusOr<ProfileRequest> GetRequest(const std::string& key) = 0;
  // As the API server's own cache has them. Only pods of the namespace that the query selects.
  virtual absl::StatusOr<std::vector<PodInfo>> ListPods(const std::string& space,
                                                        const PodQuery& query) = 0;
  // How many workers a job should have. What cannot be found out for good, such as of a kind whose
  // API is not there or not allowed, is told in JobShape::unknown; an error is worth another try.
  virtual absl::StatusOr<JobShape> DescribeJob(const std::string& space, const JobRef& job) = 0;
  // Aborted when the object has changed since it was read.
  virtual absl::Status SetFinalizers(const ProfileRequest& request,
                                     const std::vector<std::string>& finalizers) = 0;
  virtual absl::Status WriteStatus(const ProfileRequest& request, const RequestStatus& status) = 0;
  virtual absl::Status DeleteRequest(const ProfileRequest& request) = 0;
  virtual void RecordEvent(const ProfileRequest& request, bool warning, const std::string& reason,
                           const std::string& action, const std::string& note) = 0;
};

class CaptureMetrics {
 public:
  virtual ~CaptureMetrics() = default;
  virtual void AttemptEnded(const ProfileRequest& request, const AttemptProgress& progress) = 0;
  // `result` is Succeeded, Failed or Cancelled.
  virtual void CaptureEnded(const ProfileRequest& request, const std::string& result) = 0;
  virtual void ActiveCaptures(std::size_t count) = 0;
};

}  // namespace strobe
